#include "base/rank_failure.hpp"

#include <fmt/format.h>

#include <charconv>

namespace weft {
namespace {

struct Parts {
  std::optional<int> rank;
  std::string_view text;
};

Parts parts_of(std::string_view text) {
  constexpr std::string_view kBefore = "rank ";
  if (!text.starts_with(kBefore)) return {std::nullopt, text};
  int rank = -1;
  const auto [end, error] = std::from_chars(text.data() + kBefore.size(), text.data() + text.size(), rank);
  if (error != std::errc() || rank < 0) return {std::nullopt, text};
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  constexpr std::string_view kAfter = " failed: ";
  if (!rest.starts_with(kAfter)) return {std::nullopt, text};
  return {rank, rest.substr(kAfter.size())};
}

}  // namespace

std::optional<int> culprit_of(std::string_view text) {
  return parts_of(text).rank;
}

std::string_view without_culprit(std::string_view text) {
  return parts_of(text).text;
}

std::string failure_of_rank(int rank, std::string_view text) {
  return fmt::format("rank {} failed: {}", culprit_of(text).value_or(rank), without_culprit(text));
}

}  // namespace weft
