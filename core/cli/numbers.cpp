#include "numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

[[noreturn]] void refuse(const std::string& who, const std::string& text, const std::string& allowed) {
  throw UsageError(fmt::format("{} is \"{}\", must be {}", who, printable(text), allowed));
}

template <class T>
std::errc read_whole(const std::string& text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop != end ? std::errc::invalid_argument : error;
}

// Returns what `read` makes of each element of `text`, a value of `flags`.
template <class Read>
auto read_list(const std::string& flags, const std::string& text, const Read& read) {
  std::vector<decltype(read(flags, text))> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string who =
        text.find(',') == std::string::npos
            ? flags
            : fmt::format("element {} of {} {}", values.size() + 1, flags, printable(text));
    values.push_back(read(who, text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return values;
}

}  // namespace

int64_t read_integer(const std::string& who, const std::string& text, IntegerRange range) {
  int64_t value = 0;
  if (read_whole(text, value) == std::errc() && value >= range.least && value <= range.most) return value;
  refuse(who, text, fmt::format("a whole number from {} to {}", range.least, range.most));
}

double read_real(const std::string& who, const std::string& text) {
  double value = 0;
  const std::errc error = read_whole(text, value);
  if (error == std::errc::result_out_of_range)
    refuse(who, text, "within the range of a double: 0, or 4.9e-324 to 1.8e308 and their negatives");
  if (error != std::errc() || !std::isfinite(value))
    refuse(who, text, "a finite number, such as 0.5 or 1e-3");
  return value;
}

std::vector<int64_t> read_integers(const std::string& who, const std::string& text, bool may_be_empty) {
  if (may_be_empty && text.empty()) return {};
  return read_list(who, text, [](const std::string& element, const std::string& number) {
    return read_integer(element, number);
  });
}

std::vector<double> read_reals(const std::string& who, const std::string& text) {
  return read_list(who, text, read_real);
}

}  // namespace weft::cli
