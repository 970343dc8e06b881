// A simulated accelerator, for tests on machines without one: the devices "sim:0" to "sim:7" of libtorch's
// PrivateUse1. Its operators are the CPU's, so results are bitwise equal to the CPU's. It finds what a real
// device would punish: see README.md.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace weft::sim {

constexpr int kDevices = 8;   // enough for 8 ranks as threads of one process, a device each
constexpr int kStreams = 64;  // of a device. The 64th stream that is made is the first one again

// Registers the devices with libtorch, and sets the threads of a kernel to 1, here and on the device: a sum
// over parts has other bits for each number of threads. Switches libtorch's flight recorder off, which is not
// safe when ranks are threads. The first call must come before tensors are made on the devices, the first
// backward and the first group; later ones do nothing.
void install();

inline c10::Device device(c10::DeviceIndex index = 0) {
  return c10::Device(c10::kPrivateUse1, index);
}
// Returns the device of this thread, by c10::DeviceGuard.
c10::DeviceIndex current_device();
// Returns the stream to which this thread gives work.
c10::Stream current_stream(c10::DeviceIndex index = 0);
// Returns another stream.
c10::Stream new_stream(c10::DeviceIndex index = 0);
// Makes the host wait for all work of a device. Counted.
void synchronise(c10::DeviceIndex index = 0);

// Returns a function that does the work again that `give` gives to the current stream, which is not the
// default one: as one launch, on the then current stream, at the same addresses. Nothing of it is done now.
// Throws if `give` waits for the device, copies between it and the host, or uses another stream.
std::function<void()> capture(const std::function<void()>& give);

// What a device has done since reset_counters().
struct Counters {
  int64_t launches = 0;             // kernels, copies and collectives that were given to streams
  int64_t host_waits = 0;           // how often the host waited for the device
  int64_t launches_after_wait = 0;  // since the last time: if many, the device had nothing to do meanwhile
  int64_t collectives = 0;          // and messages; a coalesced group is one
  int64_t bytes_to_device = 0, bytes_to_host = 0;  // over the bus
  int64_t bytes_in_use = 0, peak_bytes = 0;        // allocations are multiples of 512 bytes
};
Counters counters(c10::DeviceIndex index = 0);
// Also sets the peak to the bytes in use.
void reset_counters(c10::DeviceIndex index = 0);

// Limits the memory of a device: an allocation beyond it throws c10::OutOfMemoryError. 8 GiB at first.
void set_capacity(c10::DeviceIndex index, int64_t bytes);

// The cost model, in microseconds: simulated time shows what overlaps, and is the same in every run.
struct Costs {
  double launch = 4, kernel = 2, bytes_per_us = 1e6, bus_bytes_per_us = 1e5;
};
void set_costs(const Costs& costs);
// Returns the simulated time of the host. After synchronise() the device has done its work by then.
double host_time(c10::DeviceIndex index = 0);

// Returns what was found since the last call, a line each: accesses that no event orders, memory that is
// freed while a stream may still use it, pinned memory that the host changed too early.
std::vector<std::string> take_reports();

// From now on nobody is told of a collective that has failed, as on a real device: what uses its result
// computes with what is there. failure() tells the first one: "communicator "all": rank 0 of 2: all_reduce: a
// peer closed ..."; empty if none has failed.
void fail_silently();
std::string failure();

// Returns the communication backend of one group of ranks, for tensors on this thread's current device; every
// member calls it. It works with a backend of the host on `store`, not with that of the group, whose
// collectives come at other times. Collectives have a stream of their own, and so have the messages between
// two ranks. As with NCCL, work of a stream is done in the order in which it is issued, tags are ignored,
// Work::wait() orders the current stream and the host goes on, and between startCoalescing() and
// endCoalescing() works are null. Of reduce_scatter each rank sums its part in the order of ranks.
c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                               int size, std::chrono::milliseconds timeout,
                                               const c10::intrusive_ptr<c10d::Backend>& of_group = nullptr);

}  // namespace weft::sim
