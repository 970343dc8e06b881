#include "wrong_devices.hpp"

#include <cstdlib>
#include <string>

#include "sim/training/sim_kind.hpp"
#include "weft/define_plugin.h"

namespace weft::test {

bool is(std::string_view mistake) {
  const char* const chosen = std::getenv("WEFT_TEST_MISTAKE");
  return chosen != nullptr && mistake == chosen;
}

namespace {

int count() {
  return is("has no device and lacks nothing") ? 0 : sim_devices();
}

std::string missing() {
  if (is("has no device and lacks nothing")) return "";
  return is("lacks a driver") ? "there is no driver on this machine" : missing_sim();
}

void limit_memory(c10::DeviceIndex index, int64_t bytes) {
  if (!is("ignores the limit")) sim::set_capacity(index, bytes);
}

// The right device also tells what the simulated one reports: the suite itself orders its work.
std::string failure() {
  if (is("fails silently") && has_communicated()) return "communicator \"all\": all_reduce: it was lost";
  if (!is("none")) return sim::failure();
  const std::vector<std::string> reports = sim::take_reports();
  return reports.empty() ? sim::failure() : "reported: " + reports.front();
}

std::vector<std::pair<std::string, std::string>> facts() {
  return {{is("tells facts in capitals") ? "Driver" : "driver", "none"}};
}

const device::Kind& kind() {
  static const device::Kind kKind = [] {
    device::Kind made = sim_kind(is("communicates through the host") ? nullptr : &connect_wrongly);
    made.name = is("has another name") ? "right" : "wrong";
    made.count = &count;
    made.missing = &missing;
    made.limit_memory = is("has little to offer") ? nullptr : &limit_memory;
    made.failure = &failure;
    made.facts = &facts;
    made.make_graph_capturer = is("has little to offer") ? nullptr : &make_wrong_capturer;
    if (is("has little to offer")) made.allow_tf32 = nullptr;
    return made;
  }();
  return kKind;
}

const device::Kind* find(std::string_view name) {
  if (name != "wrong") return nullptr;
  static const bool installed = [] {
    sim::install();
    sim::fail_silently();
    spoil_memory();
    spoil_streams();
    spoil_operators();
    return true;
  }();
  return installed ? &kind() : nullptr;
}

const void* find_factory(const weft_plugin*, weft_str id) {
  static constexpr device::KindFactory kFactory = {sizeof(device::KindFactory), &find};
  return std::string_view(id.data, id.size) == device::kKindFactory ? &kFactory : nullptr;
}

}  // namespace

}  // namespace weft::test

WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft::test::find_factory)
