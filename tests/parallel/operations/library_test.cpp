// Shard policies that name an operation of a library.
#include "contract/one_rank.hpp"
#include "opening/model_plan.hpp"
#include "parallel/operations/libraries.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

std::string policy(const std::string& operation, const std::string& more) {
  return R"({"name": "scaled", "entries": [{"on": "h.*.mlp.c_proj", "operation": ")" + operation + "\"" +
         more + "}]}";
}

double loss_under(const World& world, const std::string& policy_file) {
  const JobOptions options = {.strategy = "hybrid_parallel",
                              .options = R"({"custom_policy": ")" + policy_file + "\"}"};
  Job job = boost(world, tiny_gpt2(), options);
  return job.evaluate(own_part(gpt2_batch(4, 1), job)).loss();
}

TEST(OperationLibrary, IsFoundByAPolicyAndComparedBetweenRanks) {
  const TemporaryFolder folder;
  const std::string once = folder.file("once.json", policy("test.scaled/1", "")),
                    thrice = folder.file("thrice.json", policy("test.scaled/1", R"(, "factor": 3)"));
  on_ranks({2}, [&](World& world) {
    EXPECT_NE(loss_under(world, once), loss_under(world, thrice));
    EXPECT_ERROR(loss_under(world, world.rank() == 0 ? once : thrice), WEFT_FAILED_PRECONDITION,
                 "custom_policy");
  });
}

TEST(OperationLibrary, IsFoundByAPolicyInCThatAsksForIt) {
  std::string identity;
  const plan::Plan plan = make_plan(tiny_gpt2().module(), {}, "asks", &identity);
  EXPECT_NE(plan::canonical_text(plan).find("replace h.1.mlp.c_proj Conv1D test.scaled/1 factor=3"),
            std::string::npos);
  EXPECT_NE(identity.find("operation scaled 1.0.0"), std::string::npos) << identity;
}

TEST(OperationLibrary, IsToldToBeBrokenWhereAPolicyInCAsksForIt) {
  std::string identity;
  plan::ParallelSizes sizes;
  sizes.parallel_output = false;
  EXPECT_ERROR(make_plan(tiny_gpt2().module(), sizes, "asks", &identity), WEFT_INVALID_ARGUMENT,
               "policy \"asks\"",
               "has_operation: ", "operation \"test.unfinished/1\" has no install function");
}

TEST(OperationLibrary, IsNamedInThePlanAndBesideThePolicy) {
  const TemporaryFolder folder;
  std::string identity;
  const Model model = tiny_gpt2();
  const plan::Plan plan = make_plan(
      model.module(), {}, folder.file("p.json", policy("test.scaled/1", R"(, "factor": 3)")), &identity);
  EXPECT_NE(plan::canonical_text(plan).find("replace h.0.mlp.c_proj Conv1D test.scaled/1 factor=3"),
            std::string::npos);
  EXPECT_NE(identity.find("operation scaled 1.0.0"), std::string::npos) << identity;
}

// Under split sequences the slot of a norm is Weft's, whose operation sums the gradients of the parameters.
TEST(OperationLibrary, MayFillTheSlotOfANormUnlessSequencesAreSplit) {
  const TemporaryFolder folder;
  const std::string file = folder.file("norms.json", R"({"name": "norms", "entries": [
      {"on": "wte", "operation": "weft.embedding_vocab/1"},
      {"on": "wpe", "operation": "weft.embedding/1"},
      {"on": "h.*.ln_1", "operation": "test.norm/1"},
      {"on": "h.*.attn.c_attn", "operation": "weft.linear_column/1", "layout": "in_out", "fused": 3},
      {"on": "h.*.mlp.c_fc", "operation": "weft.linear_column/1", "layout": "in_out"},
      {"on": "h.*.attn.c_proj, h.*.mlp.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"},
      {"on": "h.*.attn", "operation": "weft.attention/1"},
      {"on": "stream_end", "operation": "weft.sequence_end/1"},
      {"divide": "h.*.attn", "attribute": "num_heads", "by": "tensor_size"},
      {"on": "lm_head", "operation": "weft.linear_vocab/1"}]})");
  on_ranks({2}, [&](World& world) {
    const auto boosted = [&](const std::string& more) {
      const JobOptions options = {
          .strategy = "hybrid_parallel",
          .options = R"({"tp_size": 2, "custom_policy": ")" + file + "\"" + more + "}"};
      return boost(world, tiny_gpt2(TinyGpt2{.heads = 4}), options);
    };
    boosted("");
    for (const std::string mode : {"split_gather", "ring"})
      EXPECT_ERROR(
          boosted(R"(, "enable_sequence_parallelism": true, "sequence_parallelism_mode": ")" + mode + "\""),
          WEFT_INVALID_ARGUMENT, "\"h.*.ln_1\" -> test.norm/1 gives h.0.ln_1 an operation of its own",
          "so the norm needs weft.layer_norm/1");
  });
}

// Returns a policy of GPT-2 whose MLP runs the operations of the library.
std::string split_policy(const std::string& scale) {
  return R"({"name": "split", "entries": [
      {"on": "wte", "operation": "weft.embedding_vocab/1"},
      {"on": "wpe", "operation": "weft.embedding/1"},
      {"on": "h.*.attn.c_attn", "operation": "weft.linear_column/1", "layout": "in_out", "fused": 3},
      {"on": "h.*.attn.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"},
      {"on": "h.*.mlp.c_fc", "operation": "test.column/1"},
      {"on": "h.*.mlp.c_proj", "operation": "test.row/1", "scale": )" +
         scale + R"(},
      {"on": "h.*.attn", "operation": "weft.attention/1"},
      {"on": "stream_end", "operation": "weft.sequence_end/1"},
      {"divide": "h.*.attn", "attribute": "num_heads", "by": "tensor_size"},
      {"tie": ["lm_head.weight", "wte.weight"]},
      {"on": "lm_head", "operation": "weft.linear_vocab/1"}]})";
}

TEST(OperationLibrary, SplitsLayersInEverySequenceMode) {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& mode, const std::string& scale) {
    nlohmann::json options = {{"custom_policy", folder.file("p" + scale + ".json", split_policy(scale))},
                              {mode == "all_to_all" || mode == "ring_attn" ? "sp_size" : "tp_size", 2}};
    if (options.contains("sp_size")) options["tp_size"] = 2;
    if (!mode.empty()) options["enable_sequence_parallelism"] = true;
    if (!mode.empty()) options["sequence_parallelism_mode"] = mode;
    return options;
  };
  const auto open = [] { return tiny_gpt2(TinyGpt2{.precision = "fp64", .heads = 4}); };
  for (const std::string mode : {"", "split_gather", "ring", "all_to_all", "ring_attn"})
    on_ranks({mode == "all_to_all" || mode == "ring_attn" ? 4 : 2}, [&](World& world) {
      const contract::Reference reference = contract::make_reference(open, {gpt2_batch(4, 1), {}});
      for (const auto& [scale, same] : {std::pair{"1", true}, std::pair{"0.5", false}}) {
        contract::Findings findings;
        contract::compare_with_one_rank(world, open, {options(mode, scale)}, reference, findings);
        EXPECT_EQ(findings.failed(), !same) << mode << " " << findings.to_json();
      }
    });
}

TEST(OperationLibrary, RefusesWhatItDoesNotHave) {
  const TemporaryFolder folder;
  const auto plan = [&](const std::string& operation) {
    std::string identity;
    return make_plan(tiny_gpt2().module(), {}, folder.file("p.json", policy(operation, "")), &identity);
  };
  std::string identity;
  for (const char* scale : {"true", "-1", "[]"})
    EXPECT_ERROR(
        make_plan(tiny_gpt2().module(), {.tensor = 2}, folder.file("p.json", split_policy(scale)), &identity),
        WEFT_INVALID_ARGUMENT, "scale");
  EXPECT_ERROR(plan("test.scaled/2"), WEFT_INVALID_ARGUMENT, "no operation is called \"test.scaled/2\"");
  EXPECT_ERROR(plan("test.unfinished/1"), WEFT_FAILED_PRECONDITION,
               "operation \"test.unfinished/1\" has no install function");
  EXPECT_ERROR(plan("sample.low_rank/1"), WEFT_INVALID_ARGUMENT, "adds parameters to a model", "--adapter");
}

}  // namespace

}  // namespace weft::test
