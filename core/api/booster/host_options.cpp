#include "booster/host_options.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/text.hpp"
#include "booster/option_checks.hpp"
#include "booster/sequence_mode.hpp"
#include "device/graph.hpp"
#include "opening/model_state.hpp"
#include "optim/gradient_norm.hpp"
#include "schedule/check.hpp"
#include "schedule/make.hpp"
#include "schedule/text.hpp"
#include "sequence_modes/sequence_mode.hpp"
#include "training/stages.hpp"
#include "transformations/transformation.hpp"

namespace weft {

namespace {

using nlohmann::json;

json strategy_options(const BoosterOptions& booster) {
  return parse_json(booster.options.empty() ? "{}" : booster.options, "options of the strategy");
}

// The value of the booster's option mixed_precision: a name and options.
struct MixedPrecision {
  std::string name;
  Options options;
};

// Returns the options of the group loss_scale without the condition that precision is fp16, which fp16_naive
// implies.
OptionTable scale_of_fp16_naive() {
  json options = options_of_plugin(
      {{"groups", {"precision", "loss_scale"}}, {"defaults", {{"initial_scale", 4294967296}}}},
      "mixed_precision fp16_naive");
  json of_scale = json::array();
  for (json& option : options)
    if (option.value("needs", json()) == json({{"precision", {"fp16"}}})) {
      option.erase("needs");
      of_scale.push_back(std::move(option));
    }
  return OptionTable(of_scale, "mixed_precision fp16_naive");
}

const OptionTable& options_of_mixed_precision(const std::string& name) {
  static const OptionTable none, naive = scale_of_fp16_naive();
  // Names and defaults of PyTorch's GradScaler.
  static const OptionTable fp16(json::parse(R"([
    {"name": "init_scale", "type": "float", "default": 65536, "by": "host", "doc": "first scale of the loss"},
    {"name": "growth_factor", "type": "float", "default": 2, "by": "host", "doc": "of the scale"},
    {"name": "backoff_factor", "type": "float", "default": 0.5, "by": "host", "doc": "of the scale after an overflow"},
    {"name": "growth_interval", "type": "int", "default": 2000, "by": "host", "doc": "updates without overflow before it grows"}
  ])"),
                                "mixed_precision fp16");
  if (name == "fp16") return fp16;
  return name == "fp16_naive" ? naive : none;
}

// Parses "fp16", or {"name": "fp16", "init_scale": 1024}.
std::optional<MixedPrecision> mixed_precision(const BoosterOptions& booster) {
  const std::string& text = booster.mixed_precision;
  if (text.empty() || text == "\"\"" || text == "null") return std::nullopt;
  json given = text.front() == '{' || text.front() == '"' ? parse_json(text, "mixed_precision") : json(text);
  if (given.is_string()) given = {{"name", given}};
  if (!given.is_object() || !given.value("name", json()).is_string())
    fail(WEFT_INVALID_ARGUMENT,
         "mixed_precision is {}, must be a name or {{\"name\": ..., options of it}}: fp16, bf16, fp16_naive",
         given.dump());
  MixedPrecision result;
  result.name = given["name"];
  given.erase("name");
  if (result.name == "fp8")
    fail(WEFT_UNIMPLEMENTED,
         "mixed_precision \"fp8\" needs matrix products in 8 bits, which Weft does not have; use bf16");
  if (result.name == "fp16_apex")
    fail(WEFT_UNIMPLEMENTED,
         "mixed_precision \"fp16_apex\" is NVIDIA Apex's, a Python package; use fp16 (autocast) or "
         "fp16_naive");
  const std::vector<std::string> names = {"fp16", "bf16", "fp16_naive"};
  if (std::find(names.begin(), names.end(), result.name) == names.end())
    fail(WEFT_INVALID_ARGUMENT, "mixed_precision is \"{}\"{}; there are: {}", result.name,
         did_you_mean(result.name, names), fmt::join(names, ", "));
  result.options = Options(options_of_mixed_precision(result.name), given, "mixed_precision " + result.name);
  return result;
}

// Parses an option that is a list of numbers of layers.
std::vector<uint32_t> layer_counts(const char* name, const OptionValue& option) {
  const json value = json::parse(option.text);
  const auto is_count = [](const json& count) {
    return count.is_number_unsigned() && count.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
  };
  if (!value.is_array() || value.empty() || !std::all_of(value.begin(), value.end(), is_count))
    fail(WEFT_INVALID_ARGUMENT,
         "{} is {}, must be a list of numbers of layers, one for each stage: [3, 4, 4]", name,
         printable(option.text));
  return value.get<std::vector<uint32_t>>();
}

// Reads options that a table lists. Leaves values as they are for others.
class Listed {
 public:
  Listed(const OptionTable& table, const Options& options) : table_(table), options_(options) {}
  bool has(const char* name) const { return table_.find(name) != nullptr; }
  void take(const char* name, bool& value) const {
    if (has(name)) value = options_.at(name).integer != 0;
  }
  void take(const char* name, std::string& value) const {
    if (has(name) && options_.at(name).kind == WEFT_KIND_TEXT) value = options_.at(name).text;
  }
  void take(const char* name, int64_t& value) const {
    if (has(name)) value = options_.at(name).integer;
  }
  void take(const char* name, std::optional<int64_t>& value) const {
    if (has(name) && options_.at(name).kind == WEFT_KIND_INT) value = options_.at(name).integer;
  }
  void take(const char* name, std::optional<std::vector<uint32_t>>& value) const {
    if (has(name) && options_.at(name).kind == WEFT_KIND_JSON) value = layer_counts(name, options_.at(name));
  }
  // Returns an option that has a value, or null.
  const OptionValue* find(const char* name) const {
    return has(name) && options_.at(name).kind != WEFT_KIND_NONE ? &options_.at(name) : nullptr;
  }
  void take(const char* name, double& value) const {
    if (!has(name)) return;
    const OptionValue& option = options_.at(name);
    value = option.kind == WEFT_KIND_INT ? static_cast<double>(option.integer) : option.real;
  }
  optim::LossScalerOptions scaler(optim::LossScalerOptions scaler) const {
    take("init_scale", scaler.initial_scale);
    take("initial_scale", scaler.initial_scale);
    take("min_scale", scaler.min_scale);
    take("max_scale", scaler.max_scale);
    take("growth_factor", scaler.growth_factor);
    take("backoff_factor", scaler.backoff_factor);
    take("growth_interval", scaler.growth_interval);
    take("hysteresis", scaler.hysteresis);
    return scaler;
  }

 private:
  const OptionTable& table_;
  const Options& options_;
};

// Reads the options of sequence parallelism.
void take_sequence_mode(const Listed& listed, plan::ParallelSizes& flags) {
  SequenceOptions options;
  listed.take("enable_sequence_parallelism", options.enable_sequence_parallelism);
  listed.take("sequence_parallelism_mode", options.sequence_parallelism_mode);
  listed.take("sp_size", options.sp_size);
  listed.take("inner_ring_size", options.inner_ring_size);
  listed.take("enable_sequence_overlap", options.enable_sequence_overlap);
  set_sequence_mode(options, flags);
}

// Reads which layers are recomputed, in the members of Colossal-AI's PipelineGradientCheckpointConfig.
void take_recomputation(const Listed& listed, PipelineOptions& options) {
  constexpr const char* kName = "gradient_checkpoint_config";
  const OptionValue* const given = listed.find(kName);
  if (given == nullptr) return;
  static const OptionTable table(json::parse(R"([
    {"name": "gradient_checkpointing_ratio", "type": "float", "default": null, "min": 0, "max": 1, "doc": "part of the layers of each stage"},
    {"name": "num_ckpt_layers_per_stage", "type": "json", "default": null, "doc": "list with the number of layers of each stage"}
  ])"),
                                 kName);
  const Options values(table, json::parse(given->text), kName);
  const Listed members(table, values);
  if (members.find("gradient_checkpointing_ratio") != nullptr)
    members.take("gradient_checkpointing_ratio", options.recomputed_part.emplace());
  members.take("num_ckpt_layers_per_stage", options.recomputed_layers);
  if (options.recomputed_part.has_value() == options.recomputed_layers.has_value())
    fail(WEFT_INVALID_ARGUMENT,
         "{} is {}, must have either gradient_checkpointing_ratio or num_ckpt_layers_per_stage", kName,
         printable(given->text));
}

// Reads the options of pipeline parallelism.
PipelineOptions take_pipeline(const Listed& listed) {
  PipelineOptions options;
  int64_t size = 1;
  listed.take("pp_size", size);
  options.size = static_cast<uint32_t>(size);
  listed.take("pp_style", options.style);
  const pipeline::Style& style = pipeline::find_style(options.style);
  int64_t chunks = style.fewest_chunks;
  if (style.most_chunks > style.fewest_chunks) listed.take("num_model_chunks", chunks);
  options.chunks = static_cast<uint32_t>(chunks);
  listed.take("num_microbatches", options.micro_batches);
  listed.take("microbatch_size", options.micro_batch_size);
  bool samples_outside = true;
  listed.take("dp_outside", samples_outside);
  options.order = samples_outside ? RankOrder::kSamplesOutside : RankOrder::kStagesOutside;
  listed.take("num_layers_per_stage", options.layers_per_stage);
  take_recomputation(listed, options);
  if (const OptionValue* const file = listed.find("schedule_file")) options.schedule_file = file->text;
  return options;
}

// Reads which forms layers have. enable_all_optimization sets every flag that the strategy lists, so it
// contradicts one that is given as false.
void take_forms(const Listed& listed, const json& given, plan::ParallelSizes& flags) {
  bool all = false;
  listed.take("enable_all_optimization", all);
  const auto take = [&](const std::string& name, bool& flag) {
    listed.take(name.c_str(), flag);
    if (!all || !listed.has(name.c_str())) return;
    if (!flag && given.contains(name))
      fail(WEFT_INVALID_ARGUMENT,
           "enable_all_optimization is true, but {} is false; leave out one of the two", name);
    flag = true;
  };
  for (const plan::Transformation& form : plan::transformations())
    if (!form.wanted) take(form.option, flags.*form.flag);
  if (plan::sequence_mode_of(flags).takes_overlap) take("enable_sequence_overlap", flags.sequence_overlap);
}

}  // namespace

std::string resolve_precision(const BoosterOptions& booster) {
  std::string precision = booster.precision;
  const auto agree = [&](const std::string& other, const char* whose) {
    if (!precision.empty() && precision != other)
      fail(WEFT_INVALID_ARGUMENT, "the precision of the job is \"{}\", but {} says \"{}\"; give one of them",
           precision, whose, other);
    precision = other;
  };
  const json options = strategy_options(booster);
  if (options.is_object() && options.contains("precision") && options["precision"].is_string())
    agree(options["precision"], "the strategy's option precision");
  if (const json& mixed = options.is_object() ? options.value("mixed_precision", json()) : json();
      mixed.is_object() && mixed.contains("param_dtype") && mixed["param_dtype"].is_string())
    agree(mixed["param_dtype"], "the strategy's mixed_precision.param_dtype");
  const std::optional<MixedPrecision> generic = mixed_precision(booster);
  if (generic) agree(generic->name == "fp16_naive" ? "fp16" : "fp32", "mixed_precision");
  if (precision.empty()) precision = "fp32";
  precision_dtype(precision);
  return precision;
}

void check_tf32_has_effect(const BoosterOptions& booster, const std::string& precision) {
  if (precision != "fp32")
    fail(WEFT_INVALID_ARGUMENT,
         "allow_tf32 is true, but has no effect: it is for matrix products of fp32 values, and the precision "
         "is {}; leave one of them out",
         precision);
  if (const std::optional<MixedPrecision> generic = mixed_precision(booster))
    fail(WEFT_INVALID_ARGUMENT,
         "allow_tf32 is true, but has no effect: it is for matrix products of fp32 values, and with "
         "mixed_precision {} they are computed in half precision; leave one of them out",
         generic->name);
}

void check_graphs_are_possible(const BoosterOptions& booster) {
  if (booster.recompute != "off")
    fail(WEFT_UNIMPLEMENTED,
         "enable_cuda_graph is true, but recompute is {}, must be off: recomputation sets the state of the "
         "device's random generator while a step runs",
         booster.recompute);
  if (!booster.objective.empty())
    fail(WEFT_UNIMPLEMENTED,
         "enable_cuda_graph is true, but a graph captures the model's own loss, and the objective is {}; "
         "leave "
         "one of them out",
         booster.objective);
  device::make_graph_capturer();
}

HostOptions host_options(const BoosterOptions& booster, const OptionTable& table, const Options& options) {
  HostOptions result;
  const Listed listed(table, options);
  int64_t tensor_size = 1;
  listed.take("tp_size", tensor_size);
  result.plan_flags.tensor = static_cast<uint32_t>(tensor_size);
  take_sequence_mode(listed, result.plan_flags);
  result.pipeline = take_pipeline(listed);
  listed.take("parallel_output", result.plan_flags.parallel_output);
  listed.take("make_vocab_size_divisible_by", result.plan_flags.vocabulary_multiple);
  take_forms(listed, strategy_options(booster), result.plan_flags);
  listed.take("sync_module_states", result.values_of_rank_0);
  listed.take("custom_policy", result.custom_policy);
  const std::optional<MixedPrecision> generic = mixed_precision(booster);
  if (generic && (listed.has("precision") || listed.has("mixed_precision")))
    fail(WEFT_INVALID_ARGUMENT,
         "strategy {} does its own precision: use its option {} in place of mixed_precision \"{}\"",
         booster.strategy, listed.has("precision") ? "precision" : "mixed_precision", generic->name);
  listed.take("master_weights", result.master_weights);
  listed.take("cast_inputs", result.cast_inputs);
  listed.take("force_outputs_fp32", result.outputs_fp32);
  listed.take("max_norm", result.max_norm);
  listed.take("norm_type", result.norm_type);
  optim::check_norm_type(result.norm_type, "norm_type");
  check_max_grad_norm(result.max_norm, "max_norm");
  if (result.max_norm > 0 && booster.max_grad_norm > 0 && result.max_norm != booster.max_grad_norm)
    fail(WEFT_INVALID_ARGUMENT,
         "the strategy's max_norm is {}, but the booster's max_grad_norm is {}; give one of them",
         result.max_norm, booster.max_grad_norm);
  if (generic && generic->name != "fp16_naive")
    result.autocast = generic->name == "fp16" ? at::kHalf : at::kBFloat16;
  if (generic && generic->name != "bf16") {
    optim::LossScalerOptions defaults;
    if (generic->name == "fp16") {
      defaults.hysteresis = 1;
      defaults.min_scale = std::numeric_limits<float>::min();
      defaults.max_scale = std::numeric_limits<float>::max();
    }
    result.scaler = Listed(options_of_mixed_precision(generic->name), generic->options).scaler(defaults);
  } else if (resolve_precision(booster) == "fp16") {
    result.scaler = listed.scaler({});
  }
  return result;
}

void read_schedule(PipelineOptions& options, int64_t accumulate) {
  constexpr size_t kLargest = size_t{1} << 24;
  if (!options.schedule_file) return;
  const std::string who = "schedule_file " + *options.schedule_file;
  std::string text;
  try {
    text = read_file(*options.schedule_file, kLargest);
  } catch (const Error& error) {
    fail(error.status(), "schedule_file: {}", error.what());
  }
  pipeline::Schedule shape = placement_of(options);
  shape.micro_batches = 0;  // as many as the text has
  const auto schedule = std::make_shared<const pipeline::Schedule>(pipeline::parse_rows(shape, text, who));
  pipeline::check_executable(*schedule, who);
  if (options.micro_batches.value_or(schedule->micro_batches) != schedule->micro_batches)
    fail(WEFT_INVALID_ARGUMENT, "{} has {} micro-batches, but num_microbatches is {}; leave it out", who,
         schedule->micro_batches, *options.micro_batches);
  if (accumulate > 1)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{} is the schedule of a whole step, but accumulate is {}; set it to 1, and write a schedule with as "
        "many micro-batches as a step shall have",
        who, accumulate);
  options.micro_batches = schedule->micro_batches;
  options.schedule = schedule;
}

}  // namespace weft
