// Options of torch_fsdp by their effect on values and bytes; the order of collectives is in collectives_test.
#include "opening/model_state.hpp"
#include "plugins/torch_fsdp/support.hpp"
#include "plugins/torch_fsdp/traced.hpp"

namespace weft::test {

namespace {

constexpr const char* kUngated = "\"gated\": false";

Job boost_toy(const World& world, const std::string& options, const std::string& keys = kUngated) {
  return boost(world, toy(fsdp(options), keys), fsdp(options));
}

TEST(Options, AreRefusedWithTheReason) {
  const auto expect_refusal = [](const std::string& options, weft_status status, auto... texts) {
    EXPECT_ERROR(boost_toy(one_rank(), options), status, "torch_fsdp", texts...);
  };
  expect_refusal(R"({"process_group": "node"})", WEFT_UNIMPLEMENTED, "process_group", "\"node\"",
                 "HYBRID_SHARD");
  expect_refusal(R"({"param_init_fn": "ones"})", WEFT_UNIMPLEMENTED, "param_init_fn", "\"ones\"",
                 "meta device", "an option", "`initial`");
  expect_refusal(R"({"sharding_strategy": "FULL"})", WEFT_INVALID_ARGUMENT, "sharding_strategy",
                 "FULL_SHARD");
  expect_refusal(R"({"sharding_strategy": "HYBRID_SHARD"})", WEFT_INVALID_ARGUMENT, "hybrid_shard_size",
                 "1 ranks", "got 0");
  expect_refusal(R"({"sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 3})", WEFT_INVALID_ARGUMENT,
                 "hybrid_shard_size", "got 3");
  expect_refusal(R"({"hybrid_shard_size": 1})", WEFT_INVALID_ARGUMENT, "hybrid_shard_size", "no effect",
                 "sharding_strategy is FULL_SHARD");
  expect_refusal(R"({"mixed_precision": {"reduce_dtype": "int8"}})", WEFT_INVALID_ARGUMENT, "reduce_dtype",
                 "int8", "bf16");
  expect_refusal(R"({"mixed_precision": {"reduce": "bf16"}})", WEFT_INVALID_ARGUMENT, "\"reduce\"",
                 "reduce_dtype");
  expect_refusal(R"({"mixed_precision": ["bf16"]})", WEFT_INVALID_ARGUMENT, "mixed_precision", "object");
  expect_refusal(R"({"ignored_modules": {}})", WEFT_INVALID_ARGUMENT, "ignored_modules", "list");
  expect_refusal(R"({"ignored_modules": ["blocks.7"]})", WEFT_INVALID_ARGUMENT, "ignored_modules",
                 "blocks.7");
}

// Elements that a rank holds of a flat buffer, and bytes of them that a collective over all sends.
int64_t part(int64_t elements, int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

WEFT_RANKS_TEST(MixedPrecision, ReducesInItsOwnType, 2) {
  const Batch batch = own_part(toy_batch(4, 1), world);
  Tensors gradients[2];
  for (const bool low : {false, true}) {
    Job job = boost_toy(world, low ? R"({"mixed_precision": {"reduce_dtype": "bf16"}})" : "{}");
    const auto sent = sent_bytes([&] { job.accumulate_gradients(batch); });
    EXPECT_EQ(sent.at("reduce_scatter"), (low ? 2 : 4) * (part(78, 2) + 3 * part(54, 2)));
    EXPECT_EQ(sent.at("all_gather"), 4 * (part(78, 2) + 6 * part(54, 2)));
    gradients[low] = published_gradients(job);
  }
  for (const auto& [name, gradient] : gradients[0]) {
    const double error = relative_error(gradients[1].at(name), gradient);
    EXPECT_LT(error, 0.01) << name;
    EXPECT_GT(error, 1e-5) << name << " was not rounded";
  }
}

TEST(MixedPrecision, SetsThePrecisionOfTheJob) {
  const char* const half = R"({"mixed_precision": {"param_dtype": "bf16"}})";
  BoosterOptions options;
  options.strategy = "torch_fsdp";
  options.options = half;
  EXPECT_EQ(Booster(options, one_rank()).precision(), "bf16");
  EXPECT_ERROR(boost(one_rank(), toy(), fsdp(half, "fp32")), WEFT_INVALID_ARGUMENT, "\"fp32\"",
               "mixed_precision.param_dtype", "\"bf16\"");
  options.options = R"({"mixed_precision": {"param_dtype": "int8"}})";
  EXPECT_ERROR(Booster(options, one_rank()), WEFT_INVALID_ARGUMENT, "int8");
}

TEST(MixedPrecision, CastsBuffers) {
  const auto scale = [](const char* options) {
    const auto module = make_toy();
    module->scale().fill_(1.001);
    Job job = boost(one_rank(), Model::adopt(module), fsdp(options));
    job.forward(toy_batch(2, 1));
    return module->scale();
  };
  EXPECT_EQ(scale("{}").scalar_type(), at::kFloat);
  const at::Tensor low = scale(R"({"mixed_precision": {"buffer_dtype": "bf16"}})");
  EXPECT_EQ(low.scalar_type(), at::kBFloat16);
  EXPECT_EQ(low.item<double>(), 1.0);
}

WEFT_RANKS_TEST(IgnoredModules, AreHeldWholeAndSummed, 2, 3) {
  const int64_t ranks = world.size();
  Job job = boost_toy(world, R"({"ignored_modules": ["wte", "blocks.1.linear"]})");
  for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK))
    if (shard.param->name == "wte.weight" || shard.param->name.starts_with("blocks.1.linear")) {
      EXPECT_EQ(shard.count, shard.param->count());
    }
  const auto sent = sent_bytes([&] { job.train_step(own_part(toy_batch(6, 1), world)); });
  const int64_t divided = 4 * (ranks - 1) * (2 * part(54, ranks) + part(12, ranks));
  const std::map<std::string, int64_t> expected = {
      {"all_gather", 2 * divided},
      {"reduce_scatter", divided},
      {"all_reduce", 2 * 4 * 78 * (ranks - 1) / ranks + 2 * 4 * 42 * (ranks - 1) / ranks}};
  EXPECT_EQ(sent, expected);
}

struct Range {
  std::string name;
  int64_t begin;
  at::Tensor value;
};

// A booster refuses ranks with different seeds, so below it.
WEFT_RANKS_TEST(SyncModuleStates, TakesThoseOfRankZero, 2, 4) {
  const auto values_begin_with = [](const World& ranks, const std::string& options, double seed) {
    const auto module = make_toy();
    module->scale().fill_(1 + seed);
    TrainingOptions seeded;
    seeded.booster.seed = static_cast<int64_t>(seed);
    const Traced traced = trace(ranks, module, options, seeded);
    std::vector<Range> ranges;
    for (const Shard& shard : traced.training->bindings().publish(WEFT_REASON_CHECK))
      ranges.push_back({shard.param->name, shard.begin, shard.value.clone()});
    return std::pair(std::move(ranges), module->scale().item<double>());
  };
  const std::vector<Range> whole = values_begin_with(one_rank(), "{}", 0).first;
  const auto expected = [&](const Range& range) {
    const auto same =
        std::find_if(whole.begin(), whole.end(), [&](const Range& w) { return w.name == range.name; });
    return same->value.narrow(0, range.begin, range.value.numel());
  };
  for (const char* options :
       {R"({"sync_module_states": false})", R"({"sync_module_states": true})",
        R"({"sync_module_states": true, "sharding_strategy": "NO_SHARD"})",
        R"({"sync_module_states": true, "sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 2})"}) {
    SCOPED_TRACE(options);
    const bool same = std::string(options).find("true") != std::string::npos || world.rank() == 0;
    const auto [ranges, scale] = values_begin_with(world, options, world.rank());
    EXPECT_EQ(scale, same ? 1 : 1 + world.rank());
    EXPECT_FALSE(ranges.empty());
    for (const Range& range : ranges)
      EXPECT_EQ(range.value.equal(expected(range)), same || range.name.ends_with("norm.weight"))
          << range.name;
  }
}

TEST(UseOrigParams, AllowsFrozenAndTrainableParametersInOneUnit) {
  // GPT-2 of which the biases alone train.
  const auto boost_biases = [](const std::string& options) {
    const Model model = tiny_gpt2("fp64");
    for (const auto& item : model.module().named_parameters())
      item.value().set_requires_grad(item.key().ends_with("bias"));
    return boost(one_rank(), model, fsdp(options, "fp64"));
  };
  EXPECT_ERROR(boost_biases("{}"), WEFT_INVALID_ARGUMENT, "torch_fsdp", "use_orig_params=true",
               "transformer.h.0.ln_1.bias");
  Job job = boost_biases(R"({"use_orig_params": true})");
  const Tensors before = published_values(job);
  job.train_step(gpt2_batch(3, 1));
  for (const auto& [name, value] : published_values(job))
    EXPECT_EQ(value.equal(before.at(name)), !name.ends_with("bias")) << name;
}

}  // namespace

}  // namespace weft::test
