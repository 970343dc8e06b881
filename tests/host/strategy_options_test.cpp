// Every option of every strategy, from the declarations that they are built with: given at its default, it is
// accepted where it has an effect and refused where it has none.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>

#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "host/expect_error.hpp"

namespace weft {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// Other options, as JSON members, with which an option has no effect and with which it has one.
struct Effect {
  Texts without, with = {""};
};
using Effects = std::map<std::string, Effect>;

const Effect kAlways;
const Effect kHalf = {{"", R"("precision": "fp32")", R"("precision": "fp64")"},
                      {R"("precision": "bf16")", R"("precision": "fp16")"}};
const Effect kFp16 = {{"", R"("precision": "bf16")"}, {R"("precision": "fp16")"}};
const Effect kOnTensorAxis = {{"", R"("tp_size": 1)"}, {R"("tp_size": 2)"}};

const Effects kPrecision = {{"precision", kAlways},
                            {"master_weights", kHalf},
                            {"cast_inputs", kAlways},
                            {"force_outputs_fp32", kHalf},
                            {"initial_scale", kFp16},
                            {"min_scale", kFp16},
                            {"max_scale", kFp16},
                            {"growth_factor", kFp16},
                            {"backoff_factor", kFp16},
                            {"growth_interval", kFp16},
                            {"hysteresis", kFp16},
                            {"max_norm", kAlways},
                            {"norm_type", {{"", R"("max_norm": 0)"}, {R"("max_norm": 0.5)"}}}};

std::string in_mode(const char* mode) {
  return fmt::format(R"("enable_sequence_parallelism": true, "sequence_parallelism_mode": "{}")", mode);
}

const Effects kModelAxes = {
    {"tp_size", kAlways},
    {"parallel_output", {{""}, {R"("tp_size": 2)", R"("enable_sequence_parallelism": true)"}}},
    {"make_vocab_size_divisible_by", kOnTensorAxis},
    {"custom_policy", kAlways},
    {"enable_sequence_parallelism", kAlways},
    {"sequence_parallelism_mode",
     {{"", R"("enable_sequence_parallelism": false)"}, {R"("enable_sequence_parallelism": true)"}}},
    {"sp_size",
     {{"", in_mode("split_gather"), in_mode("ring")},
      {R"("enable_sequence_parallelism": true)", in_mode("all_to_all"), in_mode("ring_attn")}}},
    {"inner_ring_size",
     {{"", R"("enable_sequence_parallelism": true)", in_mode("ring")}, {in_mode("ring_attn")}}},
    {"enable_sequence_overlap", {{"", in_mode("ring"), in_mode("ring_attn")}, {in_mode("split_gather")}}},
    {"enable_flash_attention", kAlways},
    {"enable_fused_normalization", kAlways},
    {"enable_jit_fused", kAlways},
    {"enable_all_optimization", kAlways}};

const Effects kTorchDdp = {{"broadcast_buffers", kAlways},
                           {"bucket_cap_mb", kAlways},
                           {"find_unused_parameters", {{R"("static_graph": true)"}}},
                           {"check_reduction", kAlways},
                           {"gradient_as_bucket_view", kAlways},
                           {"static_graph", kAlways}};

const Effects kTorchFsdp = {
    {"process_group", kAlways},
    {"sharding_strategy", kAlways},
    {"hybrid_shard_size",
     {{"", R"("sharding_strategy": "NO_SHARD")"}, {R"("sharding_strategy": "HYBRID_SHARD")"}}},
    {"cpu_offload", kAlways},
    {"auto_wrap_policy", kAlways},
    {"min_num_params", {{"", R"("auto_wrap_policy": "none")"}, {R"("auto_wrap_policy": "size")"}}},
    {"backward_prefetch", kAlways},
    {"forward_prefetch", kAlways},
    {"limit_all_gathers",
     {{R"("backward_prefetch": "none")"}, {"", R"("backward_prefetch": "none", "forward_prefetch": true)"}}},
    {"mixed_precision", kAlways},
    {"ignored_modules", kAlways},
    {"param_init_fn", kAlways},
    {"sync_module_states", kAlways},
    {"use_orig_params", kAlways}};

const Effects kLowLevelZero = {{"stage", kAlways},
                               {"reduce_bucket_size_in_m", kAlways},
                               {"communication_dtype", kAlways},
                               {"overlap_communication", kAlways},
                               {"overlap_allgather", kAlways},
                               {"cpu_offload", kAlways},
                               {"extra_dp_size", kAlways},
                               {"verbose", kAlways}};

const Effect kWhole = {{R"("zero_stage": 1)", R"("zero_stage": 2)"}, {"", R"("zero_stage": 0)"}};
const Effect kZero = {{"", R"("zero_stage": 0)"}, {R"("zero_stage": 1)", R"("zero_stage": 2)"}};

const Effect kOnPipelineAxis = {{"", R"("pp_size": 1)"}, {R"("pp_size": 2)"}};
const Effects kPipelineAxis = {
    {"pp_size", kAlways},
    {"pp_style", {{""}, {R"("pp_size": 2)"}}},
    {"num_model_chunks", {{"", R"("pp_size": 2)"}, {R"("pp_size": 2, "pp_style": "interleaved")"}}},
    {"num_microbatches", {{""}, {R"("pp_size": 2)"}}},
    {"microbatch_size", {{"", R"("pp_size": 2, "num_microbatches": 2)"}, {R"("pp_size": 2)"}}},
    {"num_layers_per_stage", kOnPipelineAxis},
    {"gradient_checkpoint_config", kOnPipelineAxis},
    {"schedule_file", {{"", R"("pp_size": 2, "microbatch_size": 2)"}, {R"("pp_size": 2)"}}},
    {"dp_outside", kOnPipelineAxis}};

const Effects kHybridParallel = {
    {"zero_stage", kAlways},
    {"ddp_bucket_cap_mb", kWhole},
    {"broadcast_buffers", kWhole},
    {"check_reduction", kWhole},
    {"find_unused_parameters", {{R"("zero_stage": 1)", R"("static_graph": true)"}, {""}}},
    {"gradient_as_bucket_view", kWhole},
    {"static_graph", kWhole},
    {"zero_bucket_size_in_m", kZero},
    {"communication_dtype", kZero},
    {"overlap_communication", kZero},
    {"overlap_allgather", kZero},
    {"cpu_offload", kZero}};

const char* const kAuto = R"("placement_policy": "auto")";
const Effect kStatic = {{kAuto, R"("placement_policy": "cpu")", R"("placement_policy": "cuda")"}};
const Effect kMeasured = {{"", R"("placement_policy": "const")"}, {kAuto}};
const Effect kSearched = {{R"("chunk_config_dict": {"chunk_size": 8})"}, {"", R"("chunk_config_dict": {})"}};

const Effects kGemini = {
    {"chunk_config_dict", kAlways},
    {"chunk_init_device", kAlways},
    {"placement_policy", kAlways},
    {"enable_gradient_accumulation", kAlways},
    {"max_prefetch", kAlways},
    {"shard_param_frac", kStatic},
    {"offload_optim_frac", kStatic},
    {"offload_param_frac", kStatic},
    {"warmup_non_model_data_ratio", kMeasured},
    {"steady_cuda_cap_ratio", kMeasured},
    {"gpu_margin_mem_ratio", kMeasured},
    {"memstats", kMeasured},
    {"search_range_m", kSearched},
    {"hidden_dim", kSearched},
    {"min_chunk_size_m", kSearched},
    {"pin_memory", {{"", R"("placement_policy": "cuda")"}, {kAuto, R"("offload_optim_frac": 0.5)"}}},
    {"enable_async_reduce", kAlways},
    {"extra_dp_size", {{R"("strict_ddp_mode": true)"}}},
    {"strict_ddp_mode", kAlways},
    {"verbose", kAlways}};

struct Listed {
  std::string strategy;
  std::vector<const Effects*> effects;
};

void PrintTo(const Listed& listed, std::ostream* out) {
  *out << listed.strategy;
}

class StrategyOptions : public ::testing::TestWithParam<Listed> {
 protected:
  static OptionTable table() {
    std::ifstream file(fmt::format("{}/{}/plugin.json.in", PLUGIN_SOURCES, GetParam().strategy));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    return option_table_of_plugin(parse_json(text, GetParam().strategy), GetParam().strategy);
  }
  static Effects effects() {
    Effects all;
    for (const Effects* some : GetParam().effects) all.insert(some->begin(), some->end());
    return all;
  }
  // The option at its default among these others.
  static json given(const OptionSpec& spec, const std::string& others) {
    json object = json::parse("{" + others + "}");
    object[spec.name] = *spec.default_value;
    return object;
  }
};

TEST_P(StrategyOptions, AreAllListedHere) {
  Texts listed, declared = table().names();
  for (const auto& [name, effect] : effects()) listed.push_back(name);
  std::sort(declared.begin(), declared.end());
  EXPECT_EQ(listed, declared);
}

TEST_P(StrategyOptions, AreRefusedAtTheirDefaultWhereTheyHaveNoEffect) {
  const OptionTable declared = table();
  for (const auto& item : effects())
    for (const std::string& others : item.second.without) {
      SCOPED_TRACE(item.first + " with " + others);
      const json object = given(*declared.find(item.first), others);
      EXPECT_ERROR(Options(declared, object, "strategy x"), WEFT_INVALID_ARGUMENT,
                   "strategy x: " + item.first, "no effect", "leave " + item.first + " out");
    }
}

TEST_P(StrategyOptions, AreAcceptedAtTheirDefaultWhereTheyHaveAnEffect) {
  const OptionTable declared = table();
  for (const auto& item : effects())
    for (const std::string& others : item.second.with) {
      SCOPED_TRACE(item.first + " with " + others);
      EXPECT_NO_THROW(Options(declared, given(*declared.find(item.first), others), "strategy x"));
    }
}

TEST_P(StrategyOptions, AreAcceptedWhenNoneIsGiven) {
  const OptionTable declared = table();
  const Options options(declared, json::object(), "strategy x");
  for (uint64_t i = 0; i < options.size(); ++i) EXPECT_EQ(options.data()[i].flags & WEFT_KV_GIVEN, 0u);
}

TEST_P(StrategyOptions, SayWhatTheyAreAndSinceWhen) {
  const OptionTable declared = table();
  for (const OptionSpec& spec : declared.specs()) {
    EXPECT_FALSE(spec.doc.empty()) << spec.name;
    EXPECT_FALSE(spec.since.empty()) << spec.name;
  }
}

// Sizes are kept in 32 bits, where 2^32 would become 0; elements are counted in 64 bits.
TEST_P(StrategyOptions, HaveLimitsIfTheyAreIntegers) {
  const OptionTable declared = table();
  for (const OptionSpec& spec : declared.specs()) {
    if (spec.kind != WEFT_KIND_INT) continue;
    SCOPED_TRACE(spec.name);
    ASSERT_TRUE(spec.min && spec.max) << "declare \"min\" and \"max\"";
    const auto least = static_cast<int64_t>(*spec.min), most = static_cast<int64_t>(*spec.max);
    const int64_t wraps_to_0 = int64_t{1} << 32;
    EXPECT_TRUE(most < wraps_to_0 || spec.name == "min_num_params") << most;
    for (const int64_t value : {least - 1, most + 1, std::max(most + 1, wraps_to_0), INT64_MAX}) {
      json given;
      given[spec.name] = value;
      EXPECT_ERROR(Options(declared, given, "strategy x"), WEFT_INVALID_ARGUMENT,
                   fmt::format("strategy x: {} is {}", spec.name, value),
                   fmt::format("from {} to {}", least, most));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, StrategyOptions,
    ::testing::Values(Listed{"torch_ddp", {&kTorchDdp, &kModelAxes, &kPipelineAxis}},
                      Listed{"torch_fsdp", {&kTorchFsdp, &kModelAxes}},
                      Listed{"low_level_zero", {&kLowLevelZero, &kPrecision, &kModelAxes, &kPipelineAxis}},
                      Listed{"hybrid_parallel", {&kHybridParallel, &kPrecision, &kModelAxes, &kPipelineAxis}},
                      Listed{"gemini", {&kGemini, &kPrecision, &kModelAxes}}),
    [](const auto& info) { return info.param.strategy; });

json manifest(const char* text) {
  return json::parse(text);
}

TEST(OptionGroups, RefuseWhatIsNotThere) {
  const auto expect_refusal = [](const char* text, const auto&... pieces) {
    EXPECT_ERROR(option_table_of_plugin(manifest(text), "plugin.json"), WEFT_INVALID_ARGUMENT, "plugin.json",
                 pieces...);
  };
  expect_refusal(R"({"groups": ["precison"]})", "names precison", "did you mean \"precision\"?");
  expect_refusal(R"({"groups": ["clipping", "clipping"]})", "\"clipping\" twice");
  expect_refusal(R"({"groups": "clipping"})", "\"groups\" is", "list");
  expect_refusal(R"({"groups": ["clipping"], "defaults": {"tp_size": 2}})", "\"defaults\" has tp_size");
  expect_refusal(R"({"groups": ["clipping"], "defaults": {"max_norm": -1}})", "max_norm is -1");
  expect_refusal(R"({"groups": ["loss_scale"]})", "needs precision");
  expect_refusal(R"({"options": [{"name": "tp_size", "type": "int", "default": 1}]})", "tp_size", "host's",
                 "group \"tensor_axis\"");
}

TEST(OptionGroups, GiveThePluginTheirOptionsWithItsDefaults) {
  const OptionTable table =
      option_table_of_plugin(manifest(R"({"groups": ["clipping"], "defaults": {"max_norm": 3},
      "options": [{"name": "depth", "type": "int", "default": 2, "since": "1.2.0"}]})"),
                             "plugin.json");
  EXPECT_EQ(table.names(), (Texts{"max_norm", "norm_type", "depth"}));
  EXPECT_EQ(*table.find("max_norm")->default_value, 3);
  EXPECT_EQ(table.find("max_norm")->by, "host");
  EXPECT_EQ(table.find("depth")->by, "strategy");
  EXPECT_EQ(table.find("depth")->since, "1.2.0");
  EXPECT_NO_THROW(Options(table, json::parse(R"({"norm_type": 1})"), "x"));
}

// A name that Colossal-AI has is not told to be a misspelling of another.
TEST(OptionGroups, SayWhatThereIsInsteadOfAnOptionOfColossalAi) {
  const OptionTable staged =
      option_table_of_plugin(manifest(R"({"groups": ["pipeline_axis"]})"), "plugin.json");
  const std::map<std::string, std::string> absent = {{"scheduler_nodes", "schedule_file"},
                                                     {"overlap_p2p", "in the background"},
                                                     {"enable_metadata_cache", "once for each shape"}};
  for (const auto& item : absent) {
    const json given = {{item.first, true}};
    const Texts words = {item.first + "=true"};
    EXPECT_ERROR(Options(staged, given, "strategy x"), WEFT_INVALID_ARGUMENT, "strategy x: " + item.first,
                 "no option", item.second);
    EXPECT_ERROR(parse_assignments(staged, words, "strategy x"), WEFT_INVALID_ARGUMENT, item.second);
  }
  const OptionTable formed =
      option_table_of_plugin(manifest(R"({"groups": ["layer_forms"]})"), "plugin.json");
  EXPECT_ERROR(Options(formed, {{"enable_cuda_graph", true}}, "strategy x"), WEFT_INVALID_ARGUMENT,
               "leave parameters");
  for (const char* name : {"deterministic", "allow_tf32", "enable_cuda_graph"})
    EXPECT_ERROR(Options(formed, {{name, true}}, "strategy x"), WEFT_INVALID_ARGUMENT, name, "the booster");
  const OptionTable other = option_table_of_plugin(manifest(R"({"groups": ["clipping"]})"), "plugin.json");
  EXPECT_ERROR(Options(other, {{"overlap_p2p", true}}, "strategy x"), WEFT_INVALID_ARGUMENT,
               "is called \"overlap_p2p\"");
}

TEST(OptionNeeds, RefuseWhatIsNoCondition) {
  const auto expect_refusal = [](const char* needs, const auto&... pieces) {
    const json option = {{"name", "a"}, {"type", "int"}, {"default", 1}, {"needs", json::parse(needs)}};
    EXPECT_ERROR(OptionTable(json::array({option}), "plugin.json"), WEFT_INVALID_ARGUMENT,
                 "plugin.json: option a", pieces...);
  };
  expect_refusal("3", "\"needs\" has 3", "object");
  expect_refusal("{}", "\"needs\" has {}");
  expect_refusal("[]", "empty list");
  expect_refusal(R"({"b": "x"})", "of values");
  expect_refusal(R"({"b": {"below": 2}})", "{\"above\": number}", "\"given\"");
  expect_refusal(R"({"b": [1]})", "needs b");
}

TEST(OptionNeeds, SayWhatWasAskedWhatWasFoundAndWhatToDo) {
  const OptionTable table(json::parse(R"([
    {"name": "mode", "type": "text", "default": "slow", "choices": ["slow", "fast", "best"]},
    {"name": "depth", "type": "int", "default": 1},
    {"name": "limit", "type": "float", "default": 2, "needs": {"mode": ["fast", "best"]}},
    {"name": "width", "type": "float", "default": 2,
     "needs": [{"mode": ["best"]}, {"depth": {"above": 1}}]}])"),
                          "plugin.json");
  EXPECT_ERROR(Options(table, {{"limit", 2}}, "strategy x"), WEFT_INVALID_ARGUMENT, "strategy x: limit",
               "no effect", "mode fast", "or best", "is slow", "leave limit");
  EXPECT_ERROR(Options(table, {{"width", 2}, {"mode", "fast"}}, "strategy x"), WEFT_INVALID_ARGUMENT,
               "mode best", "depth above 1", "is fast", "depth is 1");
  EXPECT_NO_THROW(Options(table, {{"width", 2}, {"depth", 2}}, "x"));
  const OptionTable pair(json::parse(R"([
    {"name": "folder", "type": "text", "default": "/tmp"},
    {"name": "every", "type": "int", "default": 0, "needs": {"folder": "given"}}])"),
                         "plugin.json");
  EXPECT_ERROR(Options(pair, {{"every", 2}}, "x"), WEFT_INVALID_ARGUMENT, "x: every", "needs folder");
  EXPECT_NO_THROW(Options(pair, {{"every", 2}, {"folder", "/tmp"}}, "x"));
}

TEST(OptionNeeds, AreMetByWhatIsSaidElsewhere) {
  const OptionTable table = option_table_of_plugin(manifest(R"({"groups": ["clipping"]})"), "plugin.json");
  EXPECT_ERROR(Options(table, {{"norm_type", 1}}, "x"), WEFT_INVALID_ARGUMENT, "max_norm is 0");
  EXPECT_NO_THROW(Options(table, {{"norm_type", 1}}, "x", {{"max_norm", 0.5}}));
  EXPECT_ERROR(Options(table, {{"norm_type", 1}, {"max_norm", 0}}, "x", {{"max_norm", 0.5}}),
               WEFT_INVALID_ARGUMENT, "max_norm is 0");
}

TEST(Options, SayWhichWereGiven) {
  const OptionTable table(json::parse(R"([{"name": "a", "type": "int", "default": 1},
                                          {"name": "b", "type": "int", "default": 1}])"),
                          "plugin.json");
  const Options options(table, {{"b", 1}}, "x");
  EXPECT_EQ(options.data()[0].flags, 0u);
  EXPECT_EQ(options.data()[1].flags, uint32_t{WEFT_KV_GIVEN});
}

}  // namespace
}  // namespace weft
