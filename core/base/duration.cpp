#include "base/duration.hpp"

#include <cmath>

#include "base/text.hpp"

namespace weft {

using namespace std::chrono_literals;

std::chrono::milliseconds milliseconds_of(std::string_view flag, double seconds) {
  constexpr double kYear = 365 * 24 * 3600.0;
  if (!(seconds > 0 && seconds <= kYear))
    fail(WEFT_INVALID_ARGUMENT, "{} is {} s, but must be more than 0 and at most a year", flag, seconds);
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
}

std::string seconds_text(std::chrono::nanoseconds time) {
  const std::chrono::nanoseconds unit = time < 10s ? 1ms : 100ms;
  return fmt::format("{} s", static_cast<double>((time + unit / 2) / unit) / static_cast<double>(1s / unit));
}

}  // namespace weft
