// What libtorch asks of an accelerator beside its guard and allocator: generators, pinned memory, resizing.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/GeneratorImpl.h>

#include "sim/state.hpp"

namespace weft::sim {

namespace {

// A generator of the host under the device's name; the CPU's kernels draw from it. So the numbers of a device
// and of the CPU are the same after the same seed.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index, at::Generator host = at::detail::createCPUGenerator())
      : GeneratorImpl(sim::device(index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  const at::Generator& host() const { return host_; }

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return impl().seed(); }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "sim: generators have no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "sim: generators have no offset"); }
  void set_state(const c10::TensorImpl& state) override { impl().set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return impl().get_state(); }

 private:
  Generator* clone_impl() const override { return new Generator(device().index(), host_.clone()); }
  c10::GeneratorImpl& impl() const { return *host_.unsafeGetGeneratorImpl(); }

  at::Generator host_;
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    (void)state_of(index);
    place().device = index;
  }
  c10::DeviceIndex getCurrentDevice() const override { return place().device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = place().device;
    setCurrentDevice(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? place().device : exchangeDevice(index);
  }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void* pointer) const override {
    const Lock lock(state().mutex);
    auto after = state().blocks.upper_bound(static_cast<const char*>(pointer));
    TORCH_CHECK(after != state().blocks.begin(), "sim: ", pointer, " is no memory of a device");
    return device(std::prev(after)->second->device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const auto* const all = [] {
      auto* const generators = new std::vector<at::Generator>;
      for (int i = 0; i < kDevices; ++i)
        generators->push_back(at::make_generator<Generator>(static_cast<c10::DeviceIndex>(i)));
      return generators;
    }();
    return all->at(static_cast<size_t>(index < 0 ? place().device : index));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? place().device : index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

}  // namespace

at::Generator host_generator(const at::Generator& generator) {
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->host();
}

at::Generator default_host_generator(c10::DeviceIndex index) {
  return host_generator(at::detail::getPrivateUse1Hooks().getDefaultGenerator(index));
}

void register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace weft::sim
