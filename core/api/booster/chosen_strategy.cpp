#include "booster/chosen_strategy.hpp"

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/text.hpp"
#include "plugins.hpp"
#include "training/single_rank.hpp"
#include "weft/macros.h"

namespace weft {

namespace {

void check_allows_graphs(const ChosenStrategy& chosen) {
  const bool keeps = WEFT_HAS_FIELD(chosen.api, weft_strategy_api, flags) &&
                     (chosen.api->flags & WEFT_STRATEGY_KEEPS_STORAGE) != 0;
  if (!keeps)
    fail(WEFT_UNIMPLEMENTED,
         "enable_cuda_graph is true, but strategy {} gives parameters another storage while a step runs, and "
         "a graph repeats the addresses of its capture; take none or another strategy that keeps them "
         "(sdk/docs/devices.md)",
         chosen.name);
  const HostOptions& host = chosen.host;
  const std::pair<const char*, int64_t> sizes[] = {{"tp_size", host.plan_flags.tensor},
                                                   {"sp_size", host.plan_flags.sequence},
                                                   {"pp_size", host.pipeline.size}};
  for (const auto& [name, size] : sizes)
    if (size > 1)
      fail(WEFT_UNIMPLEMENTED,
           "enable_cuda_graph is true, but {} is {}, must be 1: a graph is replayed without the host, which "
           "starts the collectives of these axes in forward and backward",
           name, size);
}

ChosenStrategy find_strategy(const BoosterOptions& booster) {
  ChosenStrategy chosen;
  nlohmann::json given =
      parse_json(booster.options.empty() ? "{}" : booster.options, "options of the strategy");
  if (booster.strategy == "none") {
    chosen.name = "none";
    chosen.api = &single_rank();
    chosen.options = Options(OptionTable(), given, "no strategy (\"none\")");
    chosen.host = host_options(booster, OptionTable(), chosen.options);
    chosen.identity = "none";
    return chosen;
  }
  const weft_loaded loaded = load_plugin("strategy", booster.strategy);
  const std::string name = plugin_name(booster.strategy);
  chosen.name = name.empty() ? std::string(view(loaded.id)) : name;
  const std::string source = fmt::format("plugin.json of {}", view(loaded.id));
  const nlohmann::json manifest = parse_json(view(loaded.manifest), source);
  const OptionTable table = option_table_of_plugin(manifest, source);
  if (table.find("precision") != nullptr && given.is_object())
    given["precision"] = resolve_precision(booster);
  // The booster's clipping uses the strategy's norm_type, which needs max_norm.
  nlohmann::json of_booster;
  if (booster.max_grad_norm > 0) of_booster["max_norm"] = booster.max_grad_norm;
  chosen.options = Options(table, given, "strategy " + chosen.name, of_booster);
  chosen.host = host_options(booster, table, chosen.options);
  const auto& factory = plugin_factory<weft_strategy_factory>(loaded, WEFT_FACTORY_STRATEGY);
  chosen.api = factory.find(&factory, borrow(chosen.name));
  if (chosen.api == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "plugin {} says that it provides strategy \"{}\", but makes none",
         view(loaded.path), chosen.name);
  chosen.identity = plugin_identity(loaded);
  return chosen;
}

}  // namespace

ChosenStrategy choose_strategy(const BoosterOptions& booster) {
  ChosenStrategy chosen = find_strategy(booster);
  if (booster.enable_cuda_graph) check_allows_graphs(chosen);
  return chosen;
}

}  // namespace weft
