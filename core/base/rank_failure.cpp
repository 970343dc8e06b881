#include "base/rank_failure.hpp"

#include <fmt/format.h>

namespace weft {

std::string_view without_culprit(std::string_view text) {
  constexpr std::string_view kBefore = "rank ", kAfter = " failed: ";
  if (!text.starts_with(kBefore)) return text;
  const size_t end = text.find_first_not_of("0123456789", kBefore.size());
  if (end == text.npos || end == kBefore.size() || !text.substr(end).starts_with(kAfter)) return text;
  return text.substr(end + kAfter.size());
}

std::string failure_of_rank(int rank, std::string_view text) {
  return without_culprit(text) != text ? std::string(text) : fmt::format("rank {} failed: {}", rank, text);
}

}  // namespace weft
