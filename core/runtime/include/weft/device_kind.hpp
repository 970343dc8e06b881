// A kind of device, which a library of plugin kind "device" (tier `native`) provides. It holds only what
// libtorch does not already ask of every device through its allocator, device guard, hooks and autocast keys;
// the library registers those with libtorch when it is loaded.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace weft::device {

// What makes the communication backend of one group of ranks, for tensors on the device. `host` is the
// group's backend for tensors in host memory. Every member calls it, at the same place among the group's
// collectives.
using MakeBackend = c10::intrusive_ptr<c10d::Backend> (*)(const c10::intrusive_ptr<c10d::Store>& store,
                                                          int rank, int size,
                                                          std::chrono::milliseconds timeout,
                                                          const c10::intrusive_ptr<c10d::Backend>& host);

// Captured work of a device, such as a CUDA graph. It uses the addresses of its capture.
class Graph {
 public:
  virtual ~Graph() = default;
  // Launches all of the work on the current stream of this thread, by one call.
  virtual void replay() = 0;
};

// Captures graphs. They share one private memory pool: graphs that are replayed in one step are replayed in
// the order of their captures, and what one computed is used or copied before the next one is replayed.
class GraphCapturer {
 public:
  virtual ~GraphCapturer() = default;
  // Captures what `give` launches on the current stream of this thread, which must not be the default stream,
  // also from the threads of autograd. Nothing of it runs. `give` must neither synchronize with the device
  // nor copy between host and device.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& give) = 0;
};

// A kind of device, as the plugin that provides it describes it.
struct Kind {
  uint64_t struct_size = sizeof(Kind);  // another size is refused
  const char* name = nullptr;           // the value of --device: "cuda"
  c10::DeviceType type = c10::DeviceType::CPU;
  // The communication backend of ranks that have a device each: its name for messages, "nccl", and what makes
  // it. Ranks that share a device, and all ranks of a kind that makes none, use that of host memory.
  const char* backend = nullptr;
  MakeBackend make_backend = nullptr;
  // Returns the number of devices that this process may use. Null: one.
  int (*count)() = nullptr;
  // Returns what this process lacks to use the device, such as a driver; empty if it lacks nothing. Null:
  // nothing.
  std::string (*missing)() = nullptr;
  // Limits the memory that this process may take on a device, in bytes. Null: a limit is refused.
  void (*limit_memory)(c10::DeviceIndex index, int64_t bytes) = nullptr;
  // Returns which work of the device has failed without anybody being told, such as a collective that a peer
  // never joined: its group, this rank, the collective and the cause. Empty if none has. The engine asks
  // whenever the host has waited for the device, because what it reads then would be wrong. Null: whoever
  // waits for work is told.
  std::string (*failure)() = nullptr;
  // Returns what `weft check` tells of the devices of this kind: names in lower_case, and values. Null:
  // nothing.
  std::vector<std::pair<std::string, std::string>> (*facts)() = nullptr;
  // An environment variable by which libraries of the device compute the same bits at every run, and the
  // values that make them do so, separated by spaces. Where it is unset, the engine sets the first value,
  // before anything is computed. Null: libtorch's deterministic mode is all that is needed.
  const char* deterministic_variable = nullptr;
  const char* deterministic_values = nullptr;
  // Lets matrix products of fp32 values round them to TF32, in the whole process. Returns why the device
  // cannot; empty if it can. Null: no device of the kind can.
  std::string (*allow_tf32)(c10::DeviceIndex index) = nullptr;
  // Returns what captures graphs on the current device. Null: the kind has no graphs.
  std::unique_ptr<GraphCapturer> (*make_graph_capturer)() = nullptr;
  // Allocates page-locked memory of just this size, for values that stay in it. Returns nothing if the system
  // locks no more. Null: that of libtorch's allocator, which may round sizes up.
  c10::DataPtr (*allocate_pinned)(size_t bytes) = nullptr;
};

// The factory of such a library. `find` returns null for a name that the library does not have; a kind that
// it returns lives as long as the process.
struct KindFactory {
  uint64_t struct_size = sizeof(KindFactory);
  const Kind* (*find)(std::string_view name) = nullptr;
};
inline constexpr const char* kKindFactory = "weft.factory.device/1";

}  // namespace weft::device
