// The device of this process: where the parameters, activations and gradients of its rank are. Only this
// folder names device types and generators; the rest of the engine asks it, and so runs on every device.
//
// Memory that the host can read is called host memory. On the CPU it is also the device's, so each function
// of this folder is a test of one flag there.
//
// Threads: use() is called before another thread asks and before tensors are made on the device. All other
// functions may be called from any thread, unless they say which.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/device_kind.hpp"

namespace weft::device {

// The type of tensors in host memory.
inline constexpr c10::DeviceType kHost = c10::DeviceType::CPU;

// A value; copies are the same device.
class Device {
 public:
  constexpr explicit Device(const Kind& kind, c10::DeviceIndex index = -1, bool shared = false)
      : kind_(&kind), type_(kind.type), index_(index), shared_(shared) {}

  const Kind& kind() const { return *kind_; }
  std::string name() const { return place().str(); }  // "cpu", "cuda:1"
  c10::Device place() const { return c10::Device(type_, index_); }
  // Returns whether its memory is host memory. Then no work is asynchronous either.
  bool is_host() const { return type_ == kHost; }
  // Returns whether this machine has more ranks than devices, so that some ranks share one.
  bool is_shared() const { return shared_; }
  // Return the name of the communication backend for tensors on the device, and what makes it; null if they
  // go through that of host memory.
  std::string_view backend() const;
  MakeBackend make_backend() const { return shared_ ? nullptr : kind_->make_backend; }

  at::TensorOptions options(at::ScalarType dtype) const { return at::TensorOptions(place()).dtype(dtype); }
  bool holds(const at::Tensor& tensor) const {
    return tensor.device().type() == type_ && (is_host() || tensor.device().index() == index_);
  }

 private:
  const Kind* kind_;
  c10::DeviceType type_;
  c10::DeviceIndex index_;
  bool shared_;
};

namespace internal {
extern Device chosen;
}
// Returns the device of this process: the CPU until use() has chosen another.
inline const Device& current() {
  return internal::chosen;
}

// Chooses a device by the name of its kind, which may have a version of its library behind an @, and loads
// the library if it is not the CPU. `local_rank` of the `local_size` ranks on this machine gets the device of
// its number; ranks share devices if there are fewer. Sets the limit of memory_limit(). Throws NOT_FOUND
// naming the library that is missing, FAILED_PRECONDITION with what the process lacks to use the device, or
// if another device was chosen before, the CPU included.
void use(std::string_view name, int local_rank = 0, int local_size = 1);
// Returns the table of a kind, whether or not this process can use it. Throws NOT_FOUND naming the library
// that is missing, FAILED_PRECONDITION if check_kind() does.
const Kind& kind_of(std::string_view name);
// Returns the CPU.
Device host();
// Throws FAILED_PRECONDITION, naming what is wrong, unless `kind`, which may be null, can be what the library
// at the path `library` says of the device `name`.
void check_kind(const Kind* kind, std::string_view name, std::string_view library);
// Returns why use(name) would throw in this process, empty if it would not.
std::string missing(std::string_view name);
// Returns how many devices of the kind this process may use. Throws as use() does.
int count(std::string_view name);
// Returns what the library of a kind tells of its devices: names and values. Empty if there is no library.
std::vector<std::pair<std::string, std::string>> facts(std::string_view name);
// Sets the limit of memory_limit() on `device`, if there is one. Throws UNIMPLEMENTED if the kind cannot.
void limit_memory(const Device& device);
// Makes `device` the current one, and leaves the choice by name open. For tests, which try several devices in
// one process.
void use(const Device& device);

// Blocks until the device has done all work that this process gave it. Throws UNAVAILABLE if some has failed.
void synchronise();
// Throws UNAVAILABLE if work of the device has failed, so that what the host reads from it would be wrong. It
// is called after each wait of the host.
void check_work();

// Returns the value of WEFT_ACCELERATOR_MEMORY in bytes, if it is set: of the pool `accelerator` on the CPU,
// of all memory of a device. Throws INVALID_ARGUMENT if it is not a size.
std::optional<int64_t> memory_limit();

// The bytes of tensors on the device, and how many it has; none are known for the CPU. There they are counted
// since count_memory() (memory/counting_allocator.hpp).
struct MemoryUse {
  int64_t used = 0, peak = 0;
  std::optional<int64_t> capacity;
};
MemoryUse memory_use();
// Makes the peak what is in use now.
void reset_peak();

}  // namespace weft::device
