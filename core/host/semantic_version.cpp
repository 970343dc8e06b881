#include "host/semantic_version.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace weft::host {
namespace {

// A parsed version: its three numbers and the pre-release after `-`.
struct Parts {
  std::array<uint64_t, 3> numbers = {};
  std::string_view pre_release;
};

std::optional<Parts> split_version(std::string_view text) {
  Parts parts;
  if (text.size() > 64) return std::nullopt;
  text = text.substr(0, text.find('+'));
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    parts.pre_release = text.substr(dash + 1);
    if (parts.pre_release.empty()) return std::nullopt;
    text = text.substr(0, dash);
  }
  for (size_t i = 0; i < 3; ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts.numbers[i]);
    if (error != std::errc() || text.front() == '-') return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (i < 2 && !text.starts_with('.')) return std::nullopt;
    if (i < 2) text.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  return parts;
}

std::strong_ordering compare_identifiers(const std::string& a, const std::string& b) {
  const auto is_number = [](const std::string& text) {
    return text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (is_number(a) && is_number(b)) return std::stoull(a) <=> std::stoull(b);
  if (is_number(a) != is_number(b)) {
    return is_number(a) ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return a.compare(b) <=> 0;
}

}  // namespace

bool is_version(std::string_view text) {
  return is_plain_name(text) && split_version(text).has_value();
}

std::strong_ordering compare_versions(std::string_view a, std::string_view b) {
  const std::optional<Parts> left = split_version(a);
  const std::optional<Parts> right = split_version(b);
  if (!left || !right) return left.has_value() <=> right.has_value();
  if (const auto order = left->numbers <=> right->numbers; order != 0) return order;
  if (left->pre_release.empty() || right->pre_release.empty()) {
    return left->pre_release.empty() <=> right->pre_release.empty();  // a release is the newer one
  }
  const std::vector<std::string> x = split(left->pre_release, '.');
  const std::vector<std::string> y = split(right->pre_release, '.');
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (const auto order = compare_identifiers(x[i], y[i]); order != 0) return order;
  }
  return x.size() <=> y.size();
}

bool is_pre_release(std::string_view version) {
  const std::optional<Parts> parts = split_version(version);
  return parts && !parts->pre_release.empty();
}

VersionRequest::VersionRequest(std::string_view text, std::string_view named) : text_(text) {
  if (text.empty() || is_version(text) || (text.starts_with('=') && is_version(text.substr(1)))) return;
  // "0" and "0.3" are versions with the other numbers.
  for (const char* rest : {".0", ".0.0"})
    if (is_plain_name(text) && text.find_first_not_of("0123456789.") == std::string_view::npos &&
        is_version(fmt::format("{}{}", text, rest)))
      return;
  fail(WEFT_INVALID_ARGUMENT,
       "{} is \"{}\", must be like 0.3 (the newest 0.3.x), =0.3.1 (this one alone) or 1.0.0-rc.1 (a "
       "pre-release)",
       named, printable(text));
}

VersionRequest VersionRequest::exactly(std::string_view version) {
  return VersionRequest(fmt::format("={}", version));
}

bool VersionRequest::matches(std::string_view version) const {
  if (text_.starts_with('=')) return version == std::string_view(text_).substr(1);
  if (text_.find('+') != std::string::npos) return version == text_;
  const std::string_view numbers = version.substr(0, version.find('+'));
  if (is_pre_release(version)) return numbers == text_;
  return text_.empty() || numbers == text_ ||
         (numbers.starts_with(text_) && numbers.substr(text_.size()).starts_with('.'));
}

NameAndVersion split_name(std::string_view asked) {
  const size_t at = asked.find('@');
  if (at == std::string_view::npos) return {asked, ""};
  if (at + 1 == asked.size())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" has no version after the @; write {}@0.3, or leave the @ out",
         printable(asked), printable(asked.substr(0, at)));
  return {asked.substr(0, at), asked.substr(at + 1)};
}

}  // namespace weft::host
