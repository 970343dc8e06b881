// `weft check`. If this code runs, the engine and libtorch were loaded.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "cpu/dispatch.hpp"
#include "device/device.hpp"

namespace weft::command {

namespace {

const char* kernels_name() {
  switch (kernels::instruction_set()) {
    case kernels::InstructionSet::kAvx512:
      return "AVX-512";
    case kernels::InstructionSet::kAvx2:
      return "AVX2";
    case kernels::InstructionSet::kPortable:
      return "portable: this processor has no AVX2, training is slow";
  }
  return "unknown";
}

std::string cuda_fact() {
  const std::string missing = device::missing("cuda");
  if (missing.empty()) return "usable with --device cuda";
  return missing.substr(0, missing.find('\n')) + "; --device cuda is refused";
}

}  // namespace

int check(const json& arguments) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"weft", arguments.at("version").get<std::string>()},
      {"compiler", __VERSION__},
      {"libtorch", TORCH_VERSION},
      {"kernels", kernels_name()},
      {"libtorch_kernels", at::get_cpu_capability()},
      {"threads",
       fmt::format("{} of {} processors", at::get_num_threads(), std::thread::hardware_concurrency())},
      {"gloo", "in libtorch"},
      {"cuda", cuda_fact()}};
  // The driver and NCCL are told even where there is no GPU.
  auto of_cuda = device::facts("cuda");
  if (of_cuda.empty())
    of_cuda.emplace_back("nccl", "not loaded: it comes with the library of the device cuda");
  for (auto& fact : of_cuda) facts.push_back(std::move(fact));
  json problems = json::array();
  bool has_strategy = false;
  for (const json& plugin : arguments.at("plugins")) {
    if (plugin.contains("problem"))
      problems.push_back(fmt::format("plugin {} {} cannot be loaded: {}", plugin.value("id", ""),
                                     plugin.value("version", ""), plugin.value("problem", "")));
    else
      has_strategy = has_strategy || plugin.value("kind", "") == "strategy";
  }
  if (!has_strategy)
    problems.push_back(
        "no strategy was found: build or install the plugins, or name their folder in WEFT_PLUGIN_ADD_PATH");
  const size_t num_plugins = arguments.at("plugins").size();
  if (arguments.at("json").get<bool>()) {
    json report = {{"plugins", num_plugins}, {"problems", problems}};
    for (const auto& [name, fact] : facts) report[name] = fact;
    std::printf("%s\n", report.dump(2).c_str());
  } else {
    for (const auto& [name, fact] : facts) std::printf("%-17s %s\n", name.c_str(), fact.c_str());
    std::printf("%-17s %zu libraries\n", "plugins", num_plugins);
    for (const json& problem : problems)
      std::printf("%-17s %s\n", "problem", printable(problem.get<std::string>(), 4000).c_str());
    if (!problems.empty()) std::printf("`weft plugins doctor` tells more of each plugin\n");
  }
  return problems.empty() ? 0 : 1;
}

}  // namespace weft::command
