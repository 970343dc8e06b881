// Mistakes of memory: an allocator and copies.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/library.h>

#include "sim/device_work.hpp"
#include "sim/sim_device.hpp"
#include "wrong_devices.hpp"
#include "wrong_streams.hpp"

namespace weft::test {

namespace {

class Allocator final : public c10::DeviceAllocator {
 public:
  explicit Allocator(c10::DeviceAllocator& right) : right_(right) {}

  c10::DataPtr allocate(size_t size) override {
    if (is("gives the same memory twice") && size == 4000 && last_ != nullptr)
      return {last_, nullptr, [](void*) {}, sim::device(sim::current_device())};
    c10::DataPtr made = right_.allocate(size);
    if (size == 4000) last_ = made.get();
    if (!is("keeps freed memory")) return made;
    void* const data = made.get();
    made.release_context();
    return {data, nullptr, [](void*) {}, made.device()};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    if (!is("resizes without the values")) right_.copy_data(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t pool) override { right_.emptyCache(pool); }
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    right_.recordStream(pointer, stream);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    if (is("counts no memory")) return {};
    return right_.getDeviceStats(index);
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { right_.resetAccumulatedStats(index); }
  void resetPeakStats(c10::DeviceIndex index) override {
    if (!is("keeps the peak")) right_.resetPeakStats(index);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    return right_.getMemoryInfo(index);
  }

 private:
  c10::DeviceAllocator& right_;
  void* last_ = nullptr;
};

at::Tensor copy_wrongly(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool is_sent = !sim::is_on_device(from), is_fetched = !sim::is_on_device(to);
  if (is("ignores strides") && is_fetched && !from.is_contiguous() && from.is_non_overlapping_and_dense())
    return sim::copy_from(from.as_strided(from.sizes(), c10::contiguous_strides(from.sizes())), to,
                          non_blocking);
  if (is("rounds doubles") && is_sent && from.scalar_type() == at::kDouble)
    return sim::copy_from(from.to(at::kFloat), to, non_blocking);
  if (is("takes bytes for truth values") && is_sent && from.scalar_type() == at::kBool &&
      to.scalar_type() != at::kBool)
    return sim::copy_from(from.logical_not(), to, non_blocking);
  if (!is_sent && !is_fetched && is_late(from, to)) return to;
  sim::copy_from(from, to, non_blocking);
  if (is("loses the last element") && is_sent && to.numel() > 1 && to.is_contiguous())
    to.view({-1}).narrow(0, to.numel() - 1, 1).zero_();
  return to;
}

}  // namespace

void spoil_memory() {
  c10::SetAllocator(c10::kPrivateUse1, new Allocator(*c10::getDeviceAllocator(c10::kPrivateUse1)));
  static auto& library = *new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1));
  library.impl("_copy_from", copy_wrongly);
}

}  // namespace weft::test
