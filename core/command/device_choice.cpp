#include "command/device_choice.hpp"

#include <exception>

#include "base/dynamic_library.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "device/device.hpp"

namespace weft::command {

namespace {

// Returns why the ranks of this host cannot have a GPU each; empty if they can.
std::string lacks_gpus(const World& world) {
  // The library of the device takes longer to load, and more memory.
  try {
    const DynamicLibrary driver("libcuda.so.1");
  } catch (const std::exception&) {
    return "no NVIDIA driver on this host";
  }
  if (!device::missing("cuda").empty())
    return "the library of the device cuda does not load, `weft check` says why";
  const int count = device::count("cuda");
  if (count >= world.local_size()) return "";
  return fmt::format("{} GPUs for {} ranks of one host; --device cuda lets ranks share them", count,
                     world.local_size());
}

}  // namespace

DeviceChoice choose_device(const Settings& arguments, const std::string& of_options,
                           const std::optional<std::string>& saved, const World& world) {
  if (arguments.given("device")) return {of_options, "--device"};
  if (arguments.given("booster")) return {of_options, "--booster"};
  if (saved) return {*saved, "the resumed job's"};
  for (const std::string& lack :
       gather_from_every_rank(world.communicator(), [&] { return lacks_gpus(world); }))
    if (!lack.empty()) return {"cpu", lack};
  return {"cuda", "every rank gets a GPU of its own"};
}

BoosterOptions on_chosen_device(BoosterOptions options, const Settings& arguments, const World& world) {
  const DeviceChoice choice = choose_device(arguments, options.device, std::nullopt, world);
  options.device = choice.device;
  if (choice.device != "cpu")
    world.print_on_master(fmt::format("device {} ({})", choice.device, choice.reason));
  return options;
}

}  // namespace weft::command
