// The simulated accelerator as a plugin, so that the `weft` command trains on it: --device sim. What it finds
// is printed when the process ends.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "sim/training/sim_kind.hpp"
#include "weft/define_plugin.h"

namespace weft::test {

namespace {

c10::intrusive_ptr<c10d::Backend> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                          std::chrono::milliseconds timeout,
                                          const c10::intrusive_ptr<c10d::Backend>&) {
  return connect_sim(store, rank, size, timeout);
}

constexpr device::Kind kKind = sim_kind(&connect);

const device::Kind* find(std::string_view name) {
  if (name != kKind.name) return nullptr;
  static const bool installed = [] {
    sim::install();
    sim::fail_silently();
    return std::atexit([] {
             for (const std::string& line : sim::take_reports())
               std::fprintf(stderr, "reported: %s\n", line.c_str());
           }) == 0;
  }();
  return installed ? &kKind : nullptr;
}

const void* find_factory(const weft_plugin*, weft_str id) {
  static constexpr device::KindFactory kFactory = {sizeof(device::KindFactory), &find};
  return std::string_view(id.data, id.size) == device::kKindFactory ? &kFactory : nullptr;
}

}  // namespace

}  // namespace weft::test

WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft::test::find_factory)
