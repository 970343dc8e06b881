#include "comm/byte_count.hpp"

#include <array>
#include <atomic>

#include "weft/world.hpp"

namespace weft {
namespace comm {
namespace {

constexpr std::array<const char*, 7> kNames = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                               "all_to_all", "send",       "control"};
std::array<std::atomic<int64_t>, kNames.size()> counts;

}  // namespace

const char* name(Traffic traffic) {
  return kNames[static_cast<size_t>(traffic)];
}

void count_bytes(Traffic traffic, int64_t bytes) {
  counts[static_cast<size_t>(traffic)] += bytes;
}

}  // namespace comm

std::map<std::string, int64_t> communicated_bytes() {
  std::map<std::string, int64_t> bytes;
  for (size_t i = 0; i < comm::kNames.size(); ++i) bytes[comm::kNames[i]] = comm::counts[i];
  return bytes;
}

}  // namespace weft
