#include "booster/chosen_strategy.hpp"

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/text.hpp"
#include "plugins.hpp"
#include "training/single_rank.hpp"

namespace weft {

ChosenStrategy choose_strategy(const BoosterOptions& booster) {
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
  chosen.name = booster.strategy.empty() ? std::string(view(loaded.id)) : booster.strategy;
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
  chosen.api = factory.find(borrow(chosen.name));
  if (chosen.api == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "plugin {} says that it provides strategy \"{}\", but makes none",
         view(loaded.path), chosen.name);
  chosen.identity = plugin_identity(loaded);
  return chosen;
}

}  // namespace weft
