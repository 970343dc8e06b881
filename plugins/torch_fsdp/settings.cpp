#include "settings.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

namespace weft::plugin::torch_fsdp {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(weft_status status, const std::string& what) {
  throw Error(status, "torch_fsdp: " + what);
}

at::ScalarType dtype_of(const std::string& key, const json& value) {
  const auto dtype = value.is_string() ? dtype_named(value.get<std::string>()) : std::nullopt;
  if (!dtype)
    refuse(WEFT_INVALID_ARGUMENT,
           "mixed_precision: " + key + " is " + value.dump() + ", must be fp32, fp64, bf16 or fp16");
  return *dtype;
}

void read_mixed_precision(const json& object, Settings& settings) {
  if (!object.is_object())
    refuse(WEFT_INVALID_ARGUMENT, "mixed_precision is " + object.dump() +
                                      ", must be an object such as {\"reduce_dtype\": \"fp32\"}");
  for (const auto& [key, value] : object.items()) {
    const bool known = key == "param_dtype" || key == "reduce_dtype" || key == "buffer_dtype";
    if (!known)
      refuse(WEFT_INVALID_ARGUMENT, "mixed_precision has the key \"" + key +
                                        "\", must be param_dtype, reduce_dtype or buffer_dtype");
    const at::ScalarType dtype = dtype_of(key, value);  // param_dtype: the host has taken it as precision
    if (key == "reduce_dtype") settings.reduce_dtype = dtype;
    if (key == "buffer_dtype") settings.buffer_dtype = dtype;
  }
}

void refuse_what_has_no_meaning_here(const Options& options) {
  if (const auto group = options.get<std::string>("process_group"); group != "world")
    refuse(WEFT_UNIMPLEMENTED,
           "process_group is \"" + group +
               "\", but the model is always held by all ranks together, \"world\"; to divide "
               "it among some of them use sharding_strategy=HYBRID_SHARD");
  if (const auto function = options.get<std::string>("param_init_fn"); !function.empty())
    refuse(
        WEFT_UNIMPLEMENTED,
        "param_init_fn is \"" + function +
            "\": it is for modules that begin on the meta device, as all do here until each rank makes its "
            "own part of them, and a function cannot be an option; override `initial` of the model to "
            "choose its values, and leave the option out");
}

uint32_t hybrid_size(const Options& options, bool hybrid, uint32_t world_size) {
  const auto size = options.get<int64_t>("hybrid_shard_size");
  if (hybrid && (size == 0 || world_size % size != 0))
    refuse(WEFT_INVALID_ARGUMENT, "HYBRID_SHARD needs a hybrid_shard_size that divides the " +
                                      std::to_string(world_size) + " ranks, got " + std::to_string(size));
  return static_cast<uint32_t>(size);
}

}  // namespace

Settings Settings::read(const Options& options, uint32_t world_size) {
  refuse_what_has_no_meaning_here(options);
  static const std::map<std::string, Sharding> kShardings = {{"FULL_SHARD", Sharding::kFull},
                                                             {"SHARD_GRAD_OP", Sharding::kGradOp},
                                                             {"NO_SHARD", Sharding::kNone},
                                                             {"HYBRID_SHARD", Sharding::kHybrid}};
  static const std::map<std::string, Prefetch> kPrefetches = {
      {"BACKWARD_PRE", Prefetch::kBefore}, {"BACKWARD_POST", Prefetch::kAfter}, {"none", Prefetch::kNone}};
  Settings settings;
  settings.sharding = kShardings.at(options.get<std::string>("sharding_strategy"));
  settings.hybrid_size = torch_fsdp::hybrid_size(options, settings.sharding == Sharding::kHybrid, world_size);
  const auto policy = options.get<std::string>("auto_wrap_policy");
  const auto elements = options.get<int64_t>("min_num_params");
  if (policy == "size") settings.wrap_elements = elements;
  if (policy == "none") settings.wrap_elements = std::numeric_limits<int64_t>::max();
  settings.backward = kPrefetches.at(options.get<std::string>("backward_prefetch"));
  settings.forward_prefetch = options.get<bool>("forward_prefetch");
  settings.offloads = options.get<bool>("cpu_offload");
  settings.limit_gathers = options.get<bool>("limit_all_gathers");
  settings.synchronise_states = options.get<bool>("sync_module_states");
  settings.mixes_frozen = options.get<bool>("use_orig_params");
  read_mixed_precision(json::parse(options.get<std::string>("mixed_precision")), settings);
  const json ignored = json::parse(options.get<std::string>("ignored_modules"));
  if (!ignored.is_array() ||
      !std::all_of(ignored.begin(), ignored.end(), [](const json& m) { return m.is_string(); }))
    refuse(WEFT_INVALID_ARGUMENT,
           "ignored_modules is " + ignored.dump() + ", must be a list of modules' names");
  settings.ignored_modules = ignored.get<std::vector<std::string>>();
  return settings;
}

uint32_t Settings::group_size(uint32_t world_size) const {
  if (sharding == Sharding::kNone) return 1;
  return sharding == Sharding::kHybrid ? hybrid_size : world_size;
}

std::vector<size_t> wrap_units(const std::vector<int64_t>& elements, const Settings& settings) {
  std::vector<size_t> wraps;
  size_t wrap = 0;
  int64_t wrapped = 0;
  for (size_t unit = 0; unit < elements.size(); ++unit) {
    if (unit != 0 && wrapped >= settings.wrap_elements) {
      ++wrap;
      wrapped = 0;
    }
    wraps.push_back(wrap);
    wrapped += elements[unit];
  }
  return wraps;
}

}  // namespace weft::plugin::torch_fsdp
