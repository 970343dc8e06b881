#include "base/environment.hpp"

#include <charconv>
#include <cstdlib>

#include "base/text.hpp"

namespace weft {

std::optional<std::string> environment(const char* name) {
  const char* value = secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int64_t> environment_integer(const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const std::from_chars_result result = std::from_chars(text->data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) {
    fail(WEFT_INVALID_ARGUMENT, "environment variable {} is \"{}\", but must be an integer", name,
         printable(*text));
  }
  return value;
}

bool environment_flag(const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return false;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (*text == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (*text == no) return false;
  }
  fail(WEFT_INVALID_ARGUMENT, "environment variable {} is \"{}\", but must be 1 or 0", name,
       printable(*text));
}

void set_environment_default(const char* name, const char* value) {
  if (!environment(name)) setenv(name, value, /*overwrite=*/1);
}

std::vector<std::string> environment_list(const char* name) {
  return split(environment(name).value_or(""), ':');
}

}  // namespace weft
