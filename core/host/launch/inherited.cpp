#include "host/launch/inherited.hpp"

#include <sys/stat.h>

#include <charconv>

#include "base/environment.hpp"
#include "base/text.hpp"

namespace weft::launch {

std::string identity_of(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return "";
  return fmt::format("{}:{}:{}", fd, status.st_dev, status.st_ino);
}

int inherited_descriptor(const char* variable) {
  const std::string value = environment(variable).value_or("");
  int fd = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), fd);
  return error == std::errc() && fd >= 0 && identity_of(fd) == value ? fd : -1;
}

}  // namespace weft::launch
