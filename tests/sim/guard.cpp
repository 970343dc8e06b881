// The device guard: the current device and stream of a thread, streams and events.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "sim/state.hpp"

namespace weft::sim {

namespace {

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : place().device;
}

// Nothing moves between two devices, so nothing has to be ordered between them either.
void require_same(c10::DeviceIndex event, c10::DeviceIndex other) {
  TORCH_CHECK(event == other, "sim: an event of sim:", static_cast<int>(event),
              " cannot order sim:", static_cast<int>(other), ": each device has its own clocks");
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Device getDevice() const override { return device(place().device); }
  c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  void setDevice(c10::Device to) const override {
    (void)state_of(index_of(to));
    uncheckedSetDevice(to);
  }
  void uncheckedSetDevice(c10::Device to) const noexcept override { place().device = index_of(to); }

  c10::Stream getStream(c10::Device of) const override {
    const c10::DeviceIndex index = index_of(of);
    return stream_of(index, place().streams.at(index));
  }
  c10::Stream getDefaultStream(c10::Device of) const override { return stream_of(index_of(of), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override { return getNewStream(of, 0); }
  c10::Stream getNewStream(c10::Device of, int) const override {
    const Lock lock(state().mutex);
    int& made = state_of(index_of(of)).streams_made;
    made = made % (kStreams - 1) + 1;
    return stream_of(index_of(of), made);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    const c10::Stream before = getStream(to.device());
    place().streams.at(to.device_index()) = to.id();
    return before;
  }

  // A query that nothing has waited for is answered "not yet" once: code that takes readiness for granted
  // fails, and code that polls goes on.
  bool queryStream(const c10::Stream& stream) const override {
    const Lock lock(state().mutex);
    DeviceState& here = state_of(stream.device_index());
    const int number = number_of(stream);
    if (!here.host.seen.covers(here.streams[number].seen) && ++here.polls[number] % 2 == 1) return false;
    host_reached(stream.device_index(), here.streams[number]);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override { count_host_wait(stream); }
  void synchronizeDevice(c10::DeviceIndex of) const override {
    const c10::DeviceIndex index = of < 0 ? place().device : of;
    const Lock lock(state().mutex);
    DeviceState& here = state_of(index);
    count_wait(here.count);
    Timeline all;
    for (const Timeline& stream : here.streams) all.join(stream);
    host_reached(index, all);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    const Lock lock(state().mutex);
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = {state_of(stream.device_index()).streams[number_of(stream)],
                                    stream.device_index(), 0};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;  // never recorded
    const auto& waited = *static_cast<const Event*>(event);
    require_same(waited.device, stream.device_index());
    const Lock lock(state().mutex);
    state_of(stream.device_index()).streams[number_of(stream)].join(waited.at);
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    auto& asked = *static_cast<Event*>(event);
    const Lock lock(state().mutex);
    if (!state_of(asked.device).host.seen.covers(asked.at.seen) && asked.polls++ == 0) return false;
    host_reached(asked.device, asked.at);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const auto& waited = *static_cast<const Event*>(event);
    const Lock lock(state().mutex);
    count_wait(state_of(waited.device).count);
    host_reached(waited.device, waited.at);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  // In milliseconds, of simulated time.
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr,
                "sim: the time between events of which one was never recorded");
    return (static_cast<Event*>(second)->at.time - static_cast<Event*>(first)->at.time) / 1000;
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    c10::getDeviceAllocator(c10::kPrivateUse1)->recordStream(pointer, stream);
  }
};

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
}

}  // namespace

Place& place() {
  static thread_local Place here;
  return here;
}

c10::DeviceIndex current_device() {
  return place().device;
}

c10::Stream current_stream(c10::DeviceIndex index) {
  return guard().getStream(device(index));
}

c10::Stream new_stream(c10::DeviceIndex index) {
  return guard().getNewStream(device(index), 0);
}

void synchronise(c10::DeviceIndex index) {
  guard().synchronizeDevice(index);
}

void register_guard() {
  static c10::impl::DeviceGuardImplRegistrar registrar(c10::kPrivateUse1, new Guard);
}

}  // namespace weft::sim
