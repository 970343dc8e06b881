#include "contract/device.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "contract/ranks.hpp"
#include "weft/error.hpp"

namespace weft::contract {

namespace {

// The libraries of a device take seconds to load, and its ranks to connect.
const Limits kLimits = {.time = std::chrono::seconds(40), .collective = std::chrono::seconds(15)};

bool is_plain(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char character) {
    return std::islower(character) != 0 || std::isdigit(character) != 0 || character == '_';
  });
}

// Looks at the table before the device is used. Returns what this machine lacks for that, or "".
std::string check_table(const std::string& name, const device::Kind& kind, Findings& findings) {
  findings.look("its table has the name of the device", kind.name == nullptr ? "it has none"
                                                        : kind.name == name
                                                            ? ""
                                                            : fmt::format("it is {}", printable(kind.name)));
  const bool pair = (kind.deterministic_variable == nullptr) == (kind.deterministic_values == nullptr);
  findings.look("its variable for deterministic libraries has values",
                pair && (kind.deterministic_values == nullptr || *kind.deterministic_values != '\0')
                    ? ""
                    : "one of deterministic_variable and deterministic_values is missing");
  if (kind.facts != nullptr)
    for (const auto& [fact, value] : kind.facts())
      findings.look(
          "its facts have names in lower_case, and values",
          is_plain(fact) && !value.empty() ? "" : fmt::format("{}: {}", printable(fact), printable(value)));
  std::string missing = kind.missing != nullptr ? kind.missing() : "";
  if (!missing.empty()) return missing;
  const int count = kind.count != nullptr ? kind.count() : 1;
  findings.look("where there is no device, it says what is missing",
                count > 0 ? "" : fmt::format("count() is {}, but missing() says that nothing is", count));
  return "";
}

// A part of the suite.
struct Part {
  Case one;
  void (*check)(const World& world, Findings& findings);
  bool shared = false;  // all ranks have the first device
};

// Chooses the device of a rank. Returns why it cannot have the one that it needs, or "".
std::string choose(const std::string& name, const Part& part, const World& world) {
  if (part.shared) {
    device::use(name, 0, 1);
    device::use(device::Device(device::current().kind(), 0, /*shared=*/true));
    return "";
  }
  const int count = device::count(name);
  if (count < world.size()) return fmt::format("this process may use {} of {} devices", count, world.size());
  device::use(name, world.rank(), world.size());
  const bool has_own = part.one.ranks == 1 || device::current().make_backend() != nullptr;
  return has_own ? ""
                 : "the device has no communication backend of its own; its ranks use that of host memory";
}

Outcome run(const std::string& name, const Part& part, const Tell& tell) {
  return run_case(
      part.one,
      [&](const World& world, Findings& findings) {
        if (const std::string why = choose(name, part, world); !why.empty())
          return findings.note("left out", why);
        part.check(world, findings);
        device::synchronise();
        const device::Kind& kind = device::current().kind();
        findings.look("no work of the device has failed", kind.failure != nullptr ? kind.failure() : "");
      },
      tell, kLimits);
}

Outcome run_table(const std::string& name, const Tell& tell) {
  const Case one{"the table", 1, /*may_refuse=*/true};
  return run_case(
      one,
      [&](const World&, Findings& findings) {
        const std::string missing = check_table(name, device::kind_of(name), findings);
        if (!missing.empty())
          fail(WEFT_FAILED_PRECONDITION,
               "device {}: {}; the other checks need the device: run them on a machine that has one", name,
               missing);
        if (!findings.failed()) device::use(name);
      },
      tell, kLimits);
}

}  // namespace

void check_device(const std::string& name, const Tell& tell) {
  if (run_table(name, tell) != Outcome::kPassed) return;
  // What all others need.
  const Part first[] = {{{"memory"}, &check_memory}, {{"streams"}, &check_streams}};
  for (const Part& part : first)
    if (run(name, part, tell) != Outcome::kPassed) return;
  const Part others[] = {{{"limited memory"}, &check_memory_limit},
                         {{"random numbers"}, &check_random},
                         {{"computing"}, &check_computing},
                         {{"operators of layers"}, &check_layer_operators},
                         {{"operators of optimizers"}, &check_update_operators},
                         {{"graphs"}, &check_graphs},
                         {{"2 ranks, a device each", 2}, &check_collectives},
                         {{"3 ranks, a device each", 3}, &check_collectives},
                         {{"3 ranks that share a device", 3}, &check_collectives, true},
                         {{"training, 1 rank"}, &check_training},
                         {{"training, 2 ranks, a device each", 2}, &check_training},
                         {{"training, 2 ranks that share a device", 2}, &check_training, true}};
  for (const Part& part : others) run(name, part, tell);
}

}  // namespace weft::contract
