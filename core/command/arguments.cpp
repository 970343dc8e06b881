#include "command/arguments.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/duration.hpp"
#include "base/job_options.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "booster/option_checks.hpp"
#include "comm/agreement.hpp"
#include "comm/job.hpp"
#include "command/saves.hpp"
#include "command/tokenize_progress.hpp"
#include "host/launch/rank_signals.hpp"
#include "opening/model_state.hpp"
#include "opening/objective_library.hpp"
#include "plugins.hpp"
#include "weft/nn/drop_path.hpp"

namespace weft::command {

namespace {

// Adds --micro-batch-size to the options of a strategy, which `table` declares. Throws INVALID_ARGUMENT where
// it has no effect, or another option also divides the batch.
void set_micro_batch_size(int64_t size, const std::string& strategy, const OptionTable& table,
                          json& options) {
  const OptionSpec* spec = table.find("microbatch_size");
  if (spec == nullptr)
    fail(WEFT_INVALID_ARGUMENT,
         "--micro-batch-size is {}, but strategy {} has no pipeline stages (no option microbatch_size); use "
         "--accumulate, or a strategy with stages",
         size, strategy);
  check_value(*spec, size, "--micro-batch-size");
  for (const char* other : {"microbatch_size", "num_microbatches"})
    if (options.contains(other) && !options[other].is_null())
      fail(WEFT_INVALID_ARGUMENT,
           "--micro-batch-size {} and -o {}={} both divide the batch into micro-batches; give one of them",
           size, other, options[other].dump());
  const auto value_of = [&](const std::string& name) {
    return options.contains(name) ? options[name] : table.at(name, strategy).default_value.value_or(json());
  };
  if (!spec->needs.hold(value_of))
    fail(WEFT_INVALID_ARGUMENT,
         "--micro-batch-size is {}, but has no effect: it needs {}, and {}; give -o pp_size=P for P pipeline "
         "stages, or use --accumulate",
         size, spec->needs.text(), spec->needs.found(value_of));
  options[spec->name] = size;
}

// Reads `-o key=value` and --micro-batch-size by the options that the strategy's manifest declares. Returns
// them as JSON.
std::string strategy_options(std::string strategy, const Settings& arguments) {
  const std::vector<std::string> words = arguments.words("options");
  const bool has_size = arguments.given("micro_batch_size");
  if (words.empty() && !has_size) return "{}";
  OptionTable table;
  std::string who = "no strategy (\"none\")";
  if (strategy != "none") {
    const weft_loaded loaded = load_plugin("strategy", strategy);
    strategy = view(loaded.id);
    who = fmt::format("strategy {}", strategy);
    const std::string source = fmt::format("plugin.json of {}", strategy);
    table = option_table_of_plugin(parse_json(view(loaded.manifest), source), source);
  }
  json options = parse_assignments(table, words, who);
  if (has_size) set_micro_batch_size(arguments.integer("micro_batch_size"), strategy, table, options);
  return options.dump();
}

// Sets the loss of a library, if --objective names one. Weft's own objectives are for the data.
void set_objective(const Settings& arguments, BoosterOptions& options) {
  if (!options.objective.empty() || options.objective_options != "{}")
    fail(WEFT_INVALID_ARGUMENT,
         "{} {}: objective is for programs; give --objective, which also decides about labels",
         arguments.called("booster"), arguments.text("booster"));
  const std::string name = arguments.text("objective"), called = arguments.called("objective");
  const std::vector<std::string> words = arguments.words("objective_options");
  if (name.empty()) return;
  if (!makes_labels(name)) {
    options.objective = name;
    options.objective_options = objective_options(name, words, called);
  } else if (!words.empty()) {
    fail(WEFT_INVALID_ARGUMENT,
         "{} is for the objective of a library, but {} {} is Weft's own and has flags; leave it out",
         arguments.called("objective_options"), called, name);
  }
}

// Opens the model again with the probability of --drop-path. Throws INVALID_ARGUMENT if it leaves out
// nothing.
void set_drop_path(const Model& model, const Settings& arguments) {
  Model::Shared& shared = model.shared();
  const auto made_with = [&](double rate) {
    return shared.make(model.config().with_json("drop_path_rate", json(rate).dump()));
  };
  const double rate = arguments.real("drop_path"), probe = 0.5;
  const auto modules = made_with(rate > 0 ? rate : probe)->modules();
  const bool drops = std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    return dynamic_cast<const nn::DropPath*>(module.get()) != nullptr;
  });
  if (!drops)
    fail(WEFT_INVALID_ARGUMENT,
         "{} {}: {} ({}) has no blocks whose branches training can leave out (\"drop_path_rate\"); leave it "
         "out",
         arguments.called("drop_path"), rate, model.architecture(), arguments.text("model"));
  shared.module = made_with(rate);
}

}  // namespace

World join_job(const Settings& arguments) {
  json facts = {{"verb", arguments.user()}};
  for (const auto& [name, value] : arguments.all().items())
    if (!find_job_option(arguments.user(), name)->each_rank) facts[arguments.called(name)] = value;
  const comm::Job job = comm::job_from_environment();
  prefer_errors_to_signals(job.rank, job.size);
  World world = launch(timeout(arguments));
  require_agreement(world.communicator(), facts);
  arguments.check();
  return world;
}

BoosterOptions booster_options(const Settings& arguments, const std::string& without) {
  BoosterOptions options;
  if (arguments.given("booster")) {
    options = BoosterOptions::load(arguments.text("booster"));
  } else {
    options.strategy = arguments.text("strategy", without);
    options.options = strategy_options(options.strategy, arguments);
  }
  BoosterOptions::each(options, [&](const std::string& name, auto& member) {
    const JobOption* const option = find_job_option(arguments.user(), name);
    if (name != "strategy" && name != "options" && arguments.given(name) && option->group == "booster")
      member = arguments.all().at(name).get<std::decay_t<decltype(member)>>();
  });
  set_objective(arguments, options);
  check_values(options, arguments.name());
  return options;
}

BoosterOptions booster_options_for_outputs(const Settings& arguments, const std::string& without) {
  BoosterOptions options = booster_options(arguments, without);
  json of_strategy = parse_json(options.options, "options of the strategy");
  if (!of_strategy.is_object()) return options;  // the Booster refuses it
  const auto splits = [&](const char* axis) { return of_strategy.value(axis, json(1)) != 1; };
  const char* const axis = splits("tp_size") ? "tp_size" : "sp_size";
  if (!splits(axis)) return options;
  if (of_strategy.value("parallel_output", json()) == true)
    fail(WEFT_INVALID_ARGUMENT,
         "the strategy's option parallel_output is true, but with {} {} that leaves each rank a part of the "
         "logits, and this command needs all of them: leave parallel_output out, or set it false",
         axis, of_strategy[axis].dump());
  of_strategy["parallel_output"] = false;
  options.options = of_strategy.dump();
  return options;
}

Model open_model(const Settings& arguments, const std::string& precision, const World& world,
                 checkpoint::Missing missing) {
  const std::string path = arguments.text("model");
  Model model = Model::open(path, arguments.text("architecture"), precision);
  if (arguments.given("drop_path")) set_drop_path(model, arguments);
  if (arguments.given("adapter")) model.adapt(arguments.text("adapter"));
  model.shared().missing = arguments.flag("allow_missing") ? checkpoint::Missing::kAnything : missing;
  if (!model.shared().weights.empty() || !std::filesystem::is_directory(path)) return model;
  if (model.shared().missing == checkpoint::Missing::kNothing)
    fail(WEFT_NOT_FOUND,
         "{} holds no weights of {}: give the folder of a trained model, or --allow-missing to begin with "
         "initial values",
         path, model.architecture());
  world.print_on_master(
      fmt::format("{} holds no weights: {} begins with initial values", path, model.architecture()));
  return model;
}

std::chrono::milliseconds timeout(const Settings& arguments) {
  return arguments.given("timeout") ? milliseconds_of("--timeout", arguments.real("timeout"))
                                    : kDefaultTimeout;
}

DataOpener data_of(const Settings& arguments, const Model& model, const World& world, int64_t seed,
                   data::Part held_out_part) {
  std::string resumed;
  if (arguments.given("resume")) resumed = resume_folder(arguments.text("resume"));
  return {arguments, model, world, seed, held_out_part, TokenizeProgress(), std::move(resumed)};
}

}  // namespace weft::command
