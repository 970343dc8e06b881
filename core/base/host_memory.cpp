#include "base/host_memory.hpp"

#include <algorithm>
#include <fstream>

namespace weft {

namespace {

std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<int64_t> host_memory(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == name + ":" && file >> kib) return kib * 1024;
  }
  return std::nullopt;
}

int64_t available_host_memory() {
  const int64_t of_host = host_memory("MemAvailable").value_or(0);
  // Version 2 of control groups, as a container sees its own. "max" is no number.
  const std::optional<int64_t> most = number_in("/sys/fs/cgroup/memory.max"),
                               used = number_in("/sys/fs/cgroup/memory.current");
  return most && used ? std::min(of_host, std::max<int64_t>(0, *most - *used)) : of_host;
}

}  // namespace weft
