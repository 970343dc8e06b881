#include "options.hpp"

#include <nlohmann/json.hpp>

namespace weft::plugin::gemini {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(WEFT_INVALID_ARGUMENT, "gemini: " + what);
}

// Reads {"chunk_size": N, "keep_gathered": B}, or an object that has such an object for each number of
// data-parallel ranks, as Colossal-AI's search returns it.
void take_chunk_config(const std::string& given, bool shard_param_frac_given, uint32_t ranks,
                       GeminiOptions& options) {
  nlohmann::json config = nlohmann::json::parse(given, nullptr, false);
  if (config.is_object() && config.empty()) return;
  if (const std::string key = std::to_string(ranks); config.is_object() && config.contains(key)) {
    nlohmann::json inner = config[key];
    config = std::move(inner);
  }
  const auto wrong = [&](const std::string& why) {
    refuse("chunk_config_dict is " + given + ", " + why + "; on " + std::to_string(ranks) +
           R"( ranks it must be like {"chunk_size": 1048576, "keep_gathered": false})");
  };
  if (!config.is_object()) wrong("which is no object");
  for (const auto& [key, value] : config.items())
    if (key != "chunk_size" && key != "keep_gathered") wrong("which has a \"" + key + "\"");
  if (!config.contains("chunk_size") || !config["chunk_size"].is_number_integer() || config["chunk_size"] < 1)
    wrong("whose chunk_size is no positive integer");
  if (!config.value("keep_gathered", nlohmann::json(false)).is_boolean())
    wrong("whose keep_gathered is neither true nor false");
  options.search.chunk_size = config["chunk_size"];
  if (!config.value("keep_gathered", false)) return;
  if (shard_param_frac_given)
    refuse(
        "chunk_config_dict keeps all chunks gathered, so shard_param_frac has no effect; leave it out, or "
        "set "
        "keep_gathered to false");
  if (options.placement.policy != "static")
    refuse("chunk_config_dict keeps chunks gathered, which needs placement_policy=static, but it is " +
           options.placement.policy);
  options.placement.shard_param_frac = 0;
}

}  // namespace

GeminiOptions parse(const Options& given, uint32_t world_size) {
  GeminiOptions options;
  options.search = {given.get<double>("search_range_m"), given.get<int64_t>("hidden_dim"),
                    given.get<double>("min_chunk_size_m"), 0};
  options.placement = {
      given.get<std::string>("placement_policy"),       given.get<double>("shard_param_frac"),
      given.get<double>("offload_optim_frac"),          given.get<double>("offload_param_frac"),
      given.get<double>("warmup_non_model_data_ratio"), given.get<double>("steady_cuda_cap_ratio"),
      given.get<double>("gpu_margin_mem_ratio")};
  options.max_prefetch = given.get<int64_t>("max_prefetch");
  options.async_reduce = given.get<bool>("enable_async_reduce");
  options.accumulate = given.get<bool>("enable_gradient_accumulation");
  options.pin_memory = given.get<bool>("pin_memory");
  options.verbose = given.get<bool>("verbose");
  options.made_in =
      given.get<std::string>("chunk_init_device") == "cpu" ? WEFT_POOL_HOST : WEFT_POOL_ACCELERATOR;
  options.memstats = given.get<std::string>("memstats");
  options.replicas = given.get<int64_t>("extra_dp_size");
  if (world_size % options.replicas != 0)
    refuse("extra_dp_size is " + std::to_string(options.replicas) + ", which does not divide the " +
           std::to_string(world_size) + " ranks");
  if (given.get<bool>("strict_ddp_mode")) options.replicas = world_size;
  take_chunk_config(given.get<std::string>("chunk_config_dict"), given.given("shard_param_frac"),
                    world_size / static_cast<uint32_t>(options.replicas), options);
  check(options.placement);
  return options;
}

}  // namespace weft::plugin::gemini
