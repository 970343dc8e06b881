#include "wrong_streams.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/device_work.hpp"
#include "sim/sim_device.hpp"
#include "wrong_devices.hpp"

namespace weft::test {

namespace {

struct Late {
  std::recursive_mutex mutex;
  std::map<c10::StreamId, std::vector<std::function<void()>>> works;
  std::map<void*, c10::StreamId> events;  // the stream on which each was recorded
};
Late& late() {
  static auto* const all = new Late;
  return *all;
}

void finish(c10::StreamId stream) {
  std::vector<std::function<void()>> works;
  {
    const std::lock_guard lock(late().mutex);
    works = std::exchange(late().works[stream], {});
  }
  for (const auto& work : works) work();
}
void finish_all() {
  std::vector<c10::StreamId> streams;
  {
    const std::lock_guard lock(late().mutex);
    for (const auto& [stream, works] : late().works) streams.push_back(stream);
  }
  for (const c10::StreamId stream : streams) finish(stream);
}
void finish_event(void* event) {
  std::unique_lock lock(late().mutex);
  const auto found = late().events.find(event);
  if (found == late().events.end()) return;
  const c10::StreamId stream = found->second;
  lock.unlock();
  finish(stream);
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  explicit Guard(const c10::impl::DeviceGuardImplInterface& right) : right_(right) {}

  c10::DeviceType type() const override { return right_.type(); }
  c10::DeviceIndex deviceCount() const noexcept override { return right_.deviceCount(); }
  c10::Device getDevice() const override { return right_.getDevice(); }
  c10::Device exchangeDevice(c10::Device to) const override { return right_.exchangeDevice(to); }
  void setDevice(c10::Device to) const override { right_.setDevice(to); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { right_.uncheckedSetDevice(to); }
  c10::Stream getStream(c10::Device of) const override { return right_.getStream(of); }
  c10::Stream getDefaultStream(c10::Device of) const override { return right_.getDefaultStream(of); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool high) const override {
    return right_.getStreamFromGlobalPool(of, high);
  }
  c10::Stream getNewStream(c10::Device of, int priority) const override {
    return right_.getNewStream(of, priority);
  }
  c10::Stream exchangeStream(c10::Stream to) const override { return right_.exchangeStream(to); }

  bool queryStream(const c10::Stream& stream) const override {
    finish(stream.id());
    return right_.queryStream(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    if (is("does not wait for streams")) return;
    finish(stream.id());
    right_.synchronizeStream(stream);
  }
  void synchronizeDevice(c10::DeviceIndex of) const override {
    if (is("does not wait for all work")) return;
    finish_all();
    right_.synchronizeDevice(of);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    right_.record(event, stream, device, flag);
    const std::lock_guard lock(late().mutex);
    late().events[*event] = stream.id();
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!is("ignores events")) finish_event(event);
    right_.block(event, stream);
  }
  bool queryEvent(void* event) const override {
    if (is("says too early that work is done")) return true;
    finish_event(event);
    return right_.queryEvent(event);
  }
  void synchronizeEvent(void* event) const override {
    if (is("does not wait for events")) return;
    finish_event(event);
    right_.synchronizeEvent(event);
  }
  void destroyEvent(void* event, const c10::DeviceIndex device) const noexcept override {
    {
      const std::lock_guard lock(late().mutex);
      late().events.erase(event);
    }
    right_.destroyEvent(event, device);
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex device) const override {
    return right_.elapsedTime(first, second, device);
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    right_.recordDataPtrOnStream(pointer, stream);
  }

 private:
  const c10::impl::DeviceGuardImplInterface& right_;
};

}  // namespace

bool is_late(const at::Tensor& from, const at::Tensor& to) {
  if (!is("works late") && !is("forgets the order of a stream") && !is("ignores events")) return false;
  const c10::Stream stream = sim::current_stream(to.device().index());
  if (stream.id() == 0 || sim::is_capturing()) return false;
  const std::lock_guard lock(late().mutex);
  late().works[stream.id()].emplace_back([from, to, stream] {
    const c10::StreamGuard on(stream);
    sim::copy_from(from, to, false);
  });
  return true;
}

void spoil_streams() {
  const c10::impl::DeviceGuardImplInterface& right = *c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
  static c10::impl::DeviceGuardImplRegistrar registrar(c10::kPrivateUse1, new Guard(right));
  if (!is("forgets the order of a stream"))
    sim::set_before_work([](c10::Stream stream) { finish(stream.id()); });
}

}  // namespace weft::test
