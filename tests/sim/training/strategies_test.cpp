// Every strategy with its options, and every sequence mode, on the simulated accelerator: the gradients and
// values of the same ranks on the CPU. class_test.cpp trains the classes of every family.
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "plugins/support/random_cases.hpp"
#include "plugins/support/refusals.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "sim/training/sim_results.hpp"
#include "support/seed.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

// A strategy with options, on so many ranks.
struct Way {
  const char *strategy, *options;
  int ranks;
  std::string recompute = "off";
  int64_t accumulate = 1;
};

// Without tensor and sequence axes, and so for every model.
const Way kWays[] = {
    {"none", "{}", 1},
    {"torch_ddp", "{}", 2, "all"},
    // A micro-batch of few samples may use only some layers of the toy.
    {"torch_ddp",
     R"({"gradient_as_bucket_view": true, "bucket_cap_mb": 0.001, "find_unused_parameters": true})", 3, "off",
     2},
    {"torch_fsdp", "{}", 2, "all"},
    {"torch_fsdp", R"({"forward_prefetch": true, "backward_prefetch": "BACKWARD_POST"})", 3},
    {"torch_fsdp", R"({"sharding_strategy": "SHARD_GRAD_OP"})", 2, "off", 2},
    {"torch_fsdp",
     R"({"sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 2,
         "mixed_precision": {"reduce_dtype": "fp32"}})",
     4},
    {"torch_fsdp", R"({"sharding_strategy": "NO_SHARD"})", 2},
    {"torch_fsdp", R"({"cpu_offload": true, "forward_prefetch": true})", 2, "off", 2},
    {"low_level_zero", R"({"stage": 1, "overlap_allgather": true})", 2},
    {"low_level_zero", R"({"stage": 2, "reduce_bucket_size_in_m": 0.001})", 3},
    {"low_level_zero", R"({"stage": 1, "extra_dp_size": 2, "communication_dtype": "fp32"})", 4},
    {"low_level_zero",
     R"({"stage": 2, "reduce_bucket_size_in_m": 0.001, "overlap_allgather": true, "cpu_offload": true})", 3,
     "off", 2},
    {"gemini", R"({"max_prefetch": 1})", 2},
    {"gemini", R"({"placement_policy": "cpu", "pin_memory": true, "max_prefetch": 1})", 2},
    {"gemini", R"({"enable_gradient_accumulation": true, "enable_async_reduce": false})", 3, "2", 2}};
const Way kStages[] = {
    {"hybrid_parallel", R"({"pp_size": 2, "num_microbatches": 4})", 2},
    {"hybrid_parallel", R"({"pp_size": 2, "pp_style": "gpipe", "num_microbatches": 3})", 2, "all"},
    {"hybrid_parallel", R"({"pp_size": 2, "pp_style": "interleaved", "num_microbatches": 4})", 2},
    {"hybrid_parallel", R"({"pp_size": 2, "pp_style": "zbh1", "num_microbatches": 4, "zero_stage": 1})", 4},
    {"hybrid_parallel", R"({"pp_size": 2, "pp_style": "zbv", "num_microbatches": 4})", 2}};
const Way kTensor[] = {{"hybrid_parallel", R"({"tp_size": 2})", 2},
                       {"hybrid_parallel", R"({"tp_size": 2, "zero_stage": 2})", 4},
                       {"hybrid_parallel", R"({"tp_size": 2, "pp_size": 2, "num_microbatches": 2})", 4}};

// A model that is trained in every way.
struct Subject {
  std::string name;
  std::function<Trial(const std::string& precision)> trial;
  bool has_plan = true;
};
const Subject kSubjects[] = {
    {"gpt2", [](const std::string& precision) { return gpt2_trial("GPT2LMHeadModel", precision); }},
    // Has a buffer, and layers that only some samples use.
    {"toy",
     [](const std::string&) {
       return Trial{.model = [](const JobOptions& options) { return toy(options); },
                    .batch = [](int64_t step) { return toy_batch(7, step); }};
     },
     false}};

void add(std::vector<std::pair<int, Case>>& cases, const Subject& subject, int ranks, JobOptions options) {
  options.precision = cases.size() % 2 == 0 ? "fp64" : "fp32";
  Trial trial = subject.trial(options.precision);
  cases.emplace_back(ranks, Case{std::move(options), std::move(trial), subject.name});
}

JobOptions options_of(const Way& way) {
  JobOptions options;
  options.strategy = way.strategy;
  options.options = way.options;
  options.recompute = way.recompute;
  options.accumulate = way.accumulate;
  return options;
}

// Returns both models in every way. What a plan refuses is left out: other tests know which that is.
std::vector<std::pair<int, Case>> every_case() {
  std::vector<std::pair<int, Case>> cases, divided;
  for (const Subject& subject : kSubjects) {
    for (const Way& way : kWays) add(cases, subject, way.ranks, options_of(way));
    for (const Way& way : kStages) add(cases, subject, way.ranks, options_of(way));
    if (!subject.has_plan) continue;
    for (const Way& way : kTensor) add(divided, subject, way.ranks, options_of(way));
    for (const Split& split : kSplits) add(divided, subject, split.ranks, laid_out(split));
  }
  for (auto& one : divided)
    if (refusal(one.second).empty()) cases.push_back(std::move(one));
  return cases;
}

TEST(SimStrategies, HaveTheGradientsAndValuesOfTheCpu) {
  std::map<int, std::vector<Case>> drawn;
  for (auto& [ranks, one] : slice("SimStrategies", every_case(), 6)) drawn[ranks].push_back(one);
  expect_results_of_the_cpu(drawn);
}

// An ordinary run trains the first of the layouts that a full run trains.
TEST(SimLayouts, HaveTheGradientsAndValuesOfTheCpu) {
  constexpr size_t kWhole = 40, kFew = 2;
  const uint32_t seed = fresh_seed();
  std::printf("SimLayouts: WEFT_TEST_SEED=%u (WEFT_TEST_FULL=1 trains %zu layouts)\n", seed, kWhole);
  SCOPED_TRACE(fmt::format("WEFT_TEST_SEED={}", seed));
  expect_results_of_the_cpu(
      draw_cases(seed, runs_whole_matrices() ? kWhole : kFew, {.ranks = {1, 2, 2, 3, 4, 4}}).trained);
}

// In fp64 the layers of these models are libtorch's operations on both devices, and so is the criterion.
Case same_operations(const Way& way) {
  Case made{options_of(way), gpt2_trial("GPT2LMHeadModel", "fp64"), "gpt2"};
  made.options.precision = "fp64";
  made.trial.criterion = [](const State& outputs, const Batch& batch) {
    return at::cross_entropy_loss(outputs.at("logits").flatten(0, 1), batch.at("input_ids").flatten());
  };
  return made;
}

TEST(SimBits, AreThoseOfTheCpuWhereTheOperationsAreTheSame) {
  std::vector<Way> ways(std::begin(kWays), std::end(kWays));
  ways.insert(ways.end(), std::begin(kStages), std::end(kStages));
  ways.push_back({"hybrid_parallel", R"({"tp_size": 2, "parallel_output": false})", 2});
  std::map<int, std::vector<Case>> drawn;
  for (const Way& way : slice("SimBits", ways, 4)) drawn[way.ranks].push_back(same_operations(way));
  expect_results_of_the_cpu(drawn, /*exactly=*/true);
}

// Ranks that share a device communicate through host memory.
TEST(SimShared, HasTheGradientsAndValuesOfTheCpu) {
  std::vector<Case> cases;
  for (const Way& way : kWays)
    if (way.ranks == 2) cases.push_back({options_of(way), kSubjects[0].trial("fp64"), "gpt2"});
  for (const Way& way : {kStages[0], kStages[3], kTensor[0]})
    cases.push_back({options_of(way), kSubjects[0].trial("fp64"), "gpt2"});
  for (const Split& split : kSplits)
    if (split.ranks == 2) cases.push_back({laid_out(split), kSubjects[0].trial("fp64"), "gpt2"});
  std::erase_if(cases, [](const Case& one) { return !refusal(one).empty(); });
  for (const Case& drawn : slice("SimShared", cases, 6)) {
    Case one = drawn;
    one.options.precision = "fp64";
    SCOPED_TRACE(describe(one));
    const bool four = one.options.options.find("zbh1") != std::string::npos;
    on_sim_ranks(four ? 4 : 2, [&](World& world) {
      const TrialOutcome expected = outcome_of(world, one.options, one.trial);
      const OnSim sim(world, kSim, /*shared=*/true);
      expect_outcome(outcome_of(world, one.options, one.trial), expected, one.trial,
                     tolerance_of(one.trial, "fp64"));
    });
  }
}

// The host draws the masks of the layers. Those of attention are drawn on the device.
TEST(SimDropout, DropsWhatTheCpuDrops) {
  std::map<int, std::vector<Case>> cases;
  for (const Way& way : {kWays[0], kWays[1], kStages[0]}) {
    Case made{options_of(way), gpt2_trial("GPT2LMHeadModel", "fp64"), "gpt2 with dropout"};
    made.options.precision = "fp64";
    made.trial.model = [](const JobOptions& options) {
      return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .dropout = 0.2});
    };
    cases[way.ranks].push_back(std::move(made));
  }
  expect_results_of_the_cpu(cases);
}

// Half precision rounds where the operations of the devices differ, so most of the gradient must agree.
TEST(SimHalfPrecision, IsNearTheCpu) {
  on_sim_ranks(2, [](World& world) {
    for (const char* precision : {"bf16", "fp16"}) {
      JobOptions options = {.strategy = "torch_fsdp", .precision = precision};
      const Trial trial = {
          .model = [](const JobOptions& options) { return tiny_gpt2(options.precision, 96); }};
      const TrialOutcome expected = outcome_of(world, options, trial);
      const OnSim sim(world);
      const TrialOutcome found = outcome_of(world, options, trial);
      EXPECT_NEAR(found.loss, expected.loss, 0.01 * expected.loss) << precision;
      for (const auto& [name, gradient] : expected.gradients) {
        const at::Tensor difference = found.gradients.at(name) - gradient;
        EXPECT_LT(difference.norm().item<double>(), 0.1 * gradient.norm().item<double>())
            << precision << " " << name;
      }
    }
  });
}

}  // namespace

}  // namespace weft::test
