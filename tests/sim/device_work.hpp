// For code that implements work of the simulated device: operators, copies and collectives.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::sim {

bool is_on_device(const at::Tensor& tensor);
bool is_pinned(const void* pointer);

// CPU tensors over the memory of device tensors. One view serves one kernel, so that tensors which share a
// storage still share one.
class HostView {
 public:
  // `who` begins the messages.
  explicit HostView(std::string who) : who_(std::move(who)) {}

  // Throws if the memory of the tensor was freed or is too small for its shape.
  at::Tensor of(const at::Tensor& tensor);
  // Returns the device's storage behind that of a CPU tensor, or null if the kernel allocated it.
  const c10::Storage* device_storage(const at::Tensor& cpu_tensor) const;

 private:
  std::string who_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> cpu_of_, device_of_;
};

// Tensors in pinned memory are checked as those of the device are.
struct Access {
  at::Tensor tensor;
  bool write;
};
// Collectives that other threads have yet to do on this memory.
std::vector<std::shared_future<void>> unfinished(const std::vector<Access>& accesses);
// Waits until they are done. Throws if one has failed.
void settle(const std::vector<Access>& accesses);
// The values of these tensors are there only when `done` is ready.
void set_unfinished(const std::vector<Access>& accesses, const std::shared_future<void>& done);

enum class Path { kMemory, kBus };
// Enters a unit of work of a stream: reports accesses that nothing orders, and counts.
void launch(const std::string& name, c10::Stream stream, const std::vector<Access>& accesses,
            Path path = Path::kMemory);

// For work that launch() enters, which a graph would do again: adds it to the graph that is being recorded,
// if there is one.
bool is_capturing();
void add_to_graph(std::function<void()> work);
// Throws if a graph is being captured, unless `name` is work of its stream.
void check_capture(const std::string& name, std::optional<c10::Stream> stream = std::nullopt);

void count_host_wait(c10::Stream stream);
void count_copy(c10::Stream stream, int64_t to_device, int64_t to_host);
void count_collective(c10::Stream stream);

// Copies between the device and the host, or on the device, as the operator copy_ does.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking);

// Has `hook` called before each piece of work of a stream is done, on the thread that gives it. For devices
// that do some of their work later than this one does.
using BeforeWork = void (*)(c10::Stream stream);
void set_before_work(BeforeWork hook);

// Begins an asynchronous copy between pinned memory and the device; call it after launch(). `data` has the
// values that are copied. To the host: they are in `pinned` when the host has waited for the stream, and NaN
// until then. From the host: they are compared with `pinned` then, to find what the host wrote too early.
void begin_copy(const at::Tensor& pinned, const at::Tensor& data, c10::Stream stream, bool to_host);

// Resizes a storage of the device, and keeps the values that fit.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Returns the host's generator inside a generator of the device.
at::Generator host_generator(const at::Generator& generator);
at::Generator default_host_generator(c10::DeviceIndex index);

}  // namespace weft::sim
