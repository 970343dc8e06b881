// What the simulated devices know of their memory and of the order of their work. Only the sources of the
// device include this.
#pragma once

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/device_work.hpp"
#include "sim/sim_device.hpp"

namespace weft::sim {

// A vector clock: of each stream, how many of its works happened before.
struct Clock {
  std::array<uint64_t, kStreams> ticks{};

  void join(const Clock& other) {
    for (int i = 0; i < kStreams; ++i) ticks[i] = std::max(ticks[i], other.ticks[i]);
  }
  bool covers(const Clock& other) const {
    for (int i = 0; i < kStreams; ++i)
      if (ticks[i] < other.ticks[i]) return false;
    return true;
  }
};

// Of a stream, of the host, or kept in an event.
struct Timeline {
  Clock seen;
  double time = 0;

  void join(const Timeline& other) {
    seen.join(other.seen);
    time = std::max(time, other.time);
  }
};

struct Event {
  Timeline at;
  c10::DeviceIndex device = 0;
  int polls = 0;
};

// An access to the bytes [begin, end) of a block.
struct Entry {
  size_t begin, end;
  bool write;
  c10::DeviceIndex device;
  int stream;
  uint64_t tick;
  std::string what;

  bool meets(const Entry& other) const {
    return begin < other.end && other.begin < end && (write || other.write);
  }
};

struct Unfinished {
  Entry access;
  std::shared_future<void> done;
};

// An allocation, of a device or of pinned memory.
struct Block {
  char* data = nullptr;
  size_t bytes = 0;
  c10::DeviceIndex device = 0;
  int home = 0;  // the stream that was current at its allocation, which may have it again once it is freed
  bool in_use = true;
  std::vector<Entry> log;  // of accesses that a later one may not be ordered behind
  std::set<int> recorded;  // the streams of record_stream
  Clock release;           // what must be done before a deferred block is free
  std::vector<Unfinished> unfinished;
};

// An asynchronous copy whose end the host has not seen.
struct Copy {
  at::Tensor pinned, data;
  bool to_host;
  int stream;
  uint64_t tick;
};

struct DeviceState {
  Timeline host;  // what the host has waited for
  std::array<Timeline, kStreams> streams;
  std::array<int, kStreams> polls{};
  int streams_made = 0;
  Counters count;
  int64_t capacity = int64_t{8} << 30;
  std::map<std::pair<int, size_t>, std::vector<Block*>> free;  // by home and size
  std::vector<Block*> deferred;                                // freed, but recorded streams may use them
  std::vector<Copy> copies;
};

struct State {
  std::recursive_mutex mutex;  // recursive: a tensor may be released inside
  std::array<DeviceState, kDevices> devices;
  std::vector<std::string> reports;
  bool fails_silently = false;
  std::string failure;
  Costs costs;
  // Device addresses are reserved and never accessible. The bytes are at the same offset of `backing`.
  char* addresses = nullptr;
  char* backing = nullptr;
  size_t used = 0;
  std::map<const char*, Block*> blocks, pinned;  // by address
};
constexpr size_t kSpan = size_t{64} << 30;  // of all devices

State& state();
// Keeps the text for failure() if it is the first.
void keep_failure(const std::string& text);
using Lock = std::lock_guard<std::recursive_mutex>;
DeviceState& state_of(c10::DeviceIndex index);

// Where this thread gives work.
struct Place {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kDevices> streams{};
};
Place& place();

inline c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device(index), id);
}
inline int number_of(c10::Stream stream) {
  return static_cast<int>(stream.id());
}
inline std::string name_of(c10::DeviceIndex index, int stream) {
  return "sim:" + std::to_string(index) + " stream " + std::to_string(stream);
}
inline char* backing_of(const void* address) {
  return state().backing + (static_cast<const char*>(address) - state().addresses);
}
// Returns the bytes of its storage that the tensor spans.
std::pair<size_t, size_t> extent(const at::Tensor& tensor);
// Returns the block of a tensor of the device or in pinned memory, otherwise null.
Block* block_of(const at::Tensor& tensor);

// All under the lock.
inline void count_wait(Counters& count) {
  check_capture("a wait of the host");
  ++count.host_waits;
  count.launches_after_wait = 0;
}
void report(const std::string& line);
// The host has waited for all of `timeline`.
void host_reached(c10::DeviceIndex index, const Timeline& timeline);
// Reports accesses of other streams behind which nothing orders the block's free, and empties the log.
void check_free(Block& block);
void make_free(Block* block);

c10::Allocator* pinned_allocator();

void register_memory();
void register_guard();
void register_hooks();
void register_operators();
void report_host_accesses();

}  // namespace weft::sim
