#include "base/bytes.hpp"

#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft {

namespace {

struct Scale {
  std::string_view name;
  double bytes;
};
constexpr Scale kScales[] = {{"", 1},
                             {"B", 1},
                             {"KiB", 1024.0},
                             {"MiB", 1048576.0},
                             {"GiB", 1073741824.0},
                             {"TiB", 1099511627776.0},
                             {"KB", 1e3},
                             {"MB", 1e6},
                             {"GB", 1e9},
                             {"TB", 1e12}};

}  // namespace

int64_t parse_bytes(std::string_view text, std::string_view who) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  if (problem == std::errc())
    for (const Scale& scale : kScales) {
      if (unit != scale.name) continue;
      const double bytes = std::round(number * scale.bytes);
      if (bytes >= 1 && bytes < 9e18) return static_cast<int64_t>(bytes);
    }
  fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be a number of bytes above 0, such as 1073741824 or 512MiB",
       who, text);
}

std::string format_bytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  const int scale = bytes < 1 << 20 ? 2 : bytes < 1 << 30 ? 3 : 4;
  return fmt::format("{:.1f} {} ({} bytes)", static_cast<double>(bytes) / kScales[scale].bytes,
                     kScales[scale].name, bytes);
}

}  // namespace weft
