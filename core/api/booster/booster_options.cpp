#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/option_table.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "booster/option_checks.hpp"

namespace weft {

namespace {

const OptionTable& booster_table() {
  static const OptionTable table(nlohmann::json::parse(R"([
    {"name": "strategy", "type": "text", "default": "", "doc": "strategy plugin by name; empty: the default; none: one rank"},
    {"name": "options", "type": "json", "default": {}, "doc": "options of the strategy"},
    {"name": "precision", "type": "text", "default": "", "doc": "of parameters and arithmetic: fp32, fp64, bf16, fp16; empty: the strategy's option, or fp32"},
    {"name": "mixed_precision", "type": "text", "default": "", "doc": "fp16, bf16, fp16_naive, or an object with name and options"},
    {"name": "recompute", "type": "text", "default": "off", "doc": "off, all, or a number of units"},
    {"name": "accumulate", "type": "int", "default": 1, "doc": "micro-batches per step"},
    {"name": "max_grad_norm", "type": "float", "default": 0, "doc": "clipping by global norm; 0: none"},
    {"name": "seed", "type": "int", "default": 42, "doc": "of initial values and dropout"},
    {"name": "check_agreement", "type": "int", "default": 0, "doc": "compare ranks also in every N-th step; 0: only in the first two steps and before saves; -1: in no step and before no save"},
    {"name": "device", "type": "text", "default": "cpu", "doc": "where the model is trained: cpu, or the device of an installed library"},
    {"name": "deterministic", "type": "bool", "default": false, "doc": "the same bits at every run; operations without a deterministic implementation are errors"},
    {"name": "allow_tf32", "type": "bool", "default": false, "doc": "matrix products of fp32 values in TF32"},
    {"name": "enable_cuda_graph", "type": "bool", "default": false, "doc": "forward and backward of a micro-batch are captured as a CUDA graph and replayed"}
  ])"),
                                 "booster");
  return table;
}

BoosterOptions from_json(nlohmann::json given, const std::string& who) {
  if (given.is_object() && given.contains("mixed_precision") && given["mixed_precision"].is_object())
    given["mixed_precision"] = given["mixed_precision"].dump();
  const Options values(booster_table(), given, who);
  BoosterOptions options;
  options.strategy = values.at("strategy").text;
  options.options = values.at("options").text;
  options.precision = values.at("precision").text;
  options.mixed_precision = values.at("mixed_precision").text;
  options.recompute = values.at("recompute").text;
  options.accumulate = values.at("accumulate").integer;
  options.max_grad_norm = values.at("max_grad_norm").real;
  options.seed = values.at("seed").integer;
  options.check_agreement = values.at("check_agreement").integer;
  options.device = values.at("device").text;
  options.deterministic = values.at("deterministic").integer != 0;
  options.allow_tf32 = values.at("allow_tf32").integer != 0;
  options.enable_cuda_graph = values.at("enable_cuda_graph").integer != 0;
  check_numbers(options, [&](const std::string& option) { return fmt::format("{}: {}", who, option); });
  return options;
}

}  // namespace

void check_max_grad_norm(double max_norm, const std::string& called) {
  if (!(max_norm >= 0) || std::isinf(max_norm))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a positive finite number, or 0 for no clipping", called,
         max_norm);
}

void check_numbers(const BoosterOptions& options, const SettingName& called) {
  if (options.accumulate < 1)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be at least 1", called("accumulate"), options.accumulate);
  check_max_grad_norm(options.max_grad_norm, called("max_grad_norm"));
  if (options.check_agreement < -1)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a number of steps, 0, or -1 for never",
         called("check_agreement"), options.check_agreement);
}

BoosterOptions BoosterOptions::parse(const std::string& json) {
  return from_json(parse_json(json, "booster options"), "booster");
}

BoosterOptions BoosterOptions::load(const std::string& path) {
  return from_json(parse_json(read_file(path, 1 << 20), path), path);
}

}  // namespace weft
