#include "command/arguments.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/options.hpp"
#include "base/setting_name.hpp"
#include "base/text.hpp"
#include "booster/option_checks.hpp"
#include "comm/agreement.hpp"
#include "comm/job.hpp"
#include "command/tokenize_progress.hpp"
#include "host/launch/rank_signals.hpp"
#include "opening/model_state.hpp"
#include "plugins.hpp"

namespace weft::command {

std::string flag_of(std::string key) {
  constexpr std::pair<std::string_view, const char*> kRepeated[] = {
      {"options", "-o"},
      {"optimizer_options", "--optimizer-option"},
      {"lr_scheduler_options", "--lr-scheduler-option"},
  };
  for (const auto& [name, flag] : kRepeated)
    if (key == name) return flag;
  return flag_name(std::move(key));
}

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
std::string strategy_options(std::string strategy, const json& arguments) {
  const std::vector<std::string> words = arguments.value("options", std::vector<std::string>());
  const bool has_size = given(arguments, "micro_batch_size");
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
  if (has_size) set_micro_batch_size(integer(arguments, "micro_batch_size", 0), strategy, table, options);
  return options.dump();
}

}  // namespace

World join_job(const char* verb, const json& arguments) {
  constexpr const char* kReadByEachRank[] = {"model", "data", "tokenizer", "inputs", "adapter", "booster"};
  json facts = {{"verb", verb}};
  for (const auto& [key, value] : arguments.items())
    if (std::find(std::begin(kReadByEachRank), std::end(kReadByEachRank), key) == std::end(kReadByEachRank))
      facts[flag_of(key)] = value;
  const comm::Job job = comm::job_from_environment();
  prefer_errors_to_signals(job.rank, job.size);
  World world = launch(timeout(arguments));
  require_agreement(world.communicator(), facts);
  return world;
}

BoosterOptions booster_options(const json& arguments, const std::string& without) {
  BoosterOptions options;
  if (given(arguments, "booster")) {
    for (const char* key : {"strategy", "options", "micro_batch_size"})
      if (given(arguments, key))
        fail(WEFT_INVALID_ARGUMENT,
             "--booster names the strategy and its options: leave {} out, or write it there", flag_of(key));
    options = BoosterOptions::load(text(arguments, "booster"));
  } else {
    options.strategy = text(arguments, "strategy", without);
    options.options = strategy_options(options.strategy, arguments);
  }
  const auto take = [&](const char* key, auto& field, auto read) {
    if (given(arguments, key)) field = read(arguments, key, field);
  };
  take("precision", options.precision, text);
  take("mixed_precision", options.mixed_precision, text);
  take("recompute", options.recompute, text);
  take("accumulate", options.accumulate, integer);
  take("max_grad_norm", options.max_grad_norm, real);
  take("check_agreement", options.check_agreement, integer);
  take("seed", options.seed, integer);
  take("device", options.device, text);
  options.deterministic |= flag(arguments, "deterministic");
  options.allow_tf32 |= flag(arguments, "allow_tf32");
  options.enable_cuda_graph |= flag(arguments, "enable_cuda_graph");
  check_numbers(options, flag_of);
  return options;
}

BoosterOptions booster_options_for_outputs(const json& arguments, const std::string& without) {
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

Model open_model(const json& arguments, const std::string& precision, const World& world,
                 checkpoint::Missing missing) {
  const std::string path = text(arguments, "model");
  Model model = Model::open(path, text(arguments, "architecture"), precision);
  if (given(arguments, "adapter")) model.adapt(text(arguments, "adapter"));
  model.shared().missing = flag(arguments, "allow_missing") ? checkpoint::Missing::kAnything : missing;
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

std::chrono::milliseconds timeout(const json& arguments) {
  return given(arguments, "timeout") ? milliseconds_of("--timeout", real(arguments, "timeout", 0))
                                     : kDefaultTimeout;
}

DataOpener data_of(const json& arguments, const Model& model, const World& world, int64_t seed,
                   data::Part held_out_part) {
  return {arguments, flag_of, model, world, seed, held_out_part, TokenizeProgress()};
}

}  // namespace weft::command
