#include <algorithm>
#include <random>

#include "invented_policy.hpp"
#include "plan/operations.hpp"

namespace weft::plan::test {
namespace {

const ModelDescription kModel = Gpt2{}.describe();

TEST(BuildPlan, RefusesMalformedPatterns) {
  const std::string message =
      refusal(kModel, policy([](const Call& c) { c.on("h..attn", "weft.attention/1"); }));
  EXPECT_TELLS(message, "policy \"invented\" on GPT2LMHeadModel (tensor_size 1");
  EXPECT_TELLS(message, "pattern \"h..attn\" is malformed: a component is empty");
}

TEST(BuildPlan, RefusesPatternsThatMatchNothingAndNamesTheNearest) {
  const std::string message = refusal(
      kModel, policy([](const Call& c) { c.on("h.*.ln_[12], h.*.attn.c_atn", "weft.layer_norm/1"); }));
  EXPECT_TELLS(message, "pattern \"h.*.attn.c_atn\" matches no module; the nearest: h.{0..1}.attn.c_attn");
  EXPECT_EQ(message.find("ln_[12]\" matches"), std::string::npos) << message;
}

TEST(BuildPlan, RefusesUnknownOperationsAndNamesTheNearest) {
  EXPECT_TELLS(refusal(kModel, policy([](const Call& c) { c.on("wte", "weft.embeding_vocab/1"); })),
               "no operation is called \"weft.embeding_vocab/1\"; did you mean \"weft.embedding_vocab/1\"?");
  EXPECT_TELLS(refusal(kModel, policy([](const Call& c) { c.on("wte", "org.example.rotate/7"); })),
               "Known: weft.activation/1, weft.alibi/1");
  EXPECT_TELLS(
      refusal(kModel, policy([](const Call& c) { c.on("wte", "weft.embedding_vocab/2"); })),
      "this host has the operation \"weft.embedding_vocab/1\", not its revision \"weft.embedding_vocab/2\"");
}

TEST(BuildPlan, RefusesOperationIdsOfAnotherForm) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.on("wte", "embedding");
                                        c.on("wpe", "weft.linear/0");
                                        c.on("drop", "weft..linear/1");
                                        c.on("ln_f", "Weft.Linear/1");
                                        c.on("lm_head", "weft.linear/1/2");
                                      }));
  for (const char* id :
       {"embedding", "weft.linear/0", "weft..linear/1", "Weft.Linear/1", "weft.linear/1/2"}) {
    EXPECT_TELLS(message, fmt::format("\"{}\" is no operation id", id));
  }
}

TEST(BuildPlan, RefusesAttributesThatTheOperationDoesNotTake) {
  const std::string message = refusal(
      kModel, policy([](const Call& c) {
        c.on("h.*.attn.c_attn", "weft.linear_column/1", {text("layout", "inout"), integer("fuse", 3)});
        c.on("h.*.mlp.c_fc", "weft.linear_column/1",
             {text("layout", "in_out"), integer("fused", 0), text("layout", "in_out")});
        c.on("h.*.mlp.c_proj", "weft.linear_row/1", {integer("layout", 1)});
        c.on("wte", "weft.embedding_vocab/1", {flag("padded", true)});
      }));
  EXPECT_TELLS(message,
               "attribute \"layout\" of weft.linear_column/1 is \"inout\", must be one of out_in, in_out; "
               "did you mean \"in_out\"?");
  EXPECT_TELLS(
      message,
      "attribute \"fuse\" of weft.linear_column/1 is unknown (it has fused, heads, input, interleaved, "
      "key_heads, layout); did you mean \"fused\"?");
  EXPECT_TELLS(message, "attribute \"fused\" of weft.linear_column/1 is 0, must be at least 1");
  EXPECT_TELLS(message, "attribute \"layout\" of weft.linear_column/1 is given twice");
  EXPECT_TELLS(message, "attribute \"layout\" of weft.linear_row/1 is an integer, must be a text");
  EXPECT_TELLS(message, "attribute \"padded\" of weft.embedding_vocab/1 is unknown (it has none)");
}

TEST(BuildPlan, RefusesModulesThatTheOperationDoesNotFit) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.on("h.*.attn", "weft.linear_row/1");
                                        c.on("h.*.mlp.c_fc", "weft.linear_column/1");
                                        c.on("lm_head", "weft.linear_row/1", {text("layout", "in_out")});
                                      }));
  EXPECT_TELLS(message,
               "h.{0..1}.attn is of kind Attention, but weft.linear_row/1 fits Conv1D and Linear only");
  EXPECT_TELLS(
      message,
      "h.{0..1}.mlp.c_fc is a Conv1D, whose layout is \"in_out\", but the entry says layout = \"out_in\"");
  EXPECT_TELLS(message,
               "lm_head is a Linear, whose layout is \"out_in\", but the entry says layout = \"in_out\"");
}

TEST(BuildPlan, RefusesTwoOperationsForOneModule) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.on("h.*.ln_1", "weft.layer_norm/1");
                                        c.on("h.0.ln_*", "weft.layer_norm/1");
                                      }));
  EXPECT_TELLS(
      message,
      "h.0.ln_1 replaced by 2 entries: \"h.*.ln_1\" -> weft.layer_norm/1, \"h.0.ln_*\" -> weft.layer_norm/1");
}

TEST(BuildPlan, RefusesToDivideWhatIsNotThereOrNoMultiple) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.divide("h.*.attn", "num_head", 2);
                                        c.divide("h.*.mlp", "num_heads", 2);
                                        c.divide("h.*.attn", "num_heads", 3);
                                        c.divide("h.0.attn", "num_heads", 1);
                                        c.divide("h.[1].attn", "num_heads", 0);
                                      }));
  EXPECT_TELLS(message, "h.{0..1}.attn (Attention) has no integer attribute \"num_head\"");
  EXPECT_TELLS(message, "h.{0..1}.mlp (MLP) has no integer attribute \"num_heads\"");
  EXPECT_TELLS(
      message,
      "h.{0..1}.attn has num_heads 4, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
  EXPECT_TELLS(message, "h.0.attn has its \"num_heads\" divided by an earlier entry");
  EXPECT_TELLS(message, "the divisor is 0, must be at least 1");
}

TEST(BuildPlan, RefusesTiesThatTheModelDoesNotDeclare) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.tie("lm_head.weight", "wpe.weight");
                                        c.tie("lm_head.weigt", "wte.weight");
                                      }));
  EXPECT_TELLS(message, "the model does not tie them; it declares lm_head.weight = wte.weight");
  EXPECT_TELLS(message, "the model has no parameter \"lm_head.weigt\"; the nearest: lm_head.weight");
  EXPECT_TELLS(refusal(Gpt2{.tied = false}.describe(),
                       policy([](const Call& c) { c.tie("lm_head.weight", "wte.weight"); })),
               "it declares no tie");
}

TEST(BuildPlan, RefusesTiedParametersThatAreCutInTwoWays) {
  const std::string message =
      refusal(kModel, policy([](const Call& c) { c.on("wte", "weft.embedding_vocab/1"); }));
  EXPECT_TELLS(message,
               "lm_head.weight and wte.weight are one parameter, but lm_head.weight is not split and "
               "wte.weight is split along "
               "dimension 0");
  EXPECT_TELLS(
      refusal(kModel, policy([](const Call& c) {
                c.on("wte", "weft.embedding_vocab/1");
                c.on("lm_head", "weft.linear_row/1");
              })),
      "lm_head.weight is split along dimension 1 (12 elements on the first rank) and wte.weight is split "
      "along dimension 0");
}

TEST(BuildPlan, RefusesSizesThatDoNotDivideAndNamesTheNearest) {
  const ModelDescription model = Gpt2{.embedding = 12, .heads = 6}.describe();
  const auto requires_heads =
      policy([](const Call& c) { c.require_divides("n_head", c.parallel->tensor_size); });
  EXPECT_TELLS(refusal(model, requires_heads, {.tensor = 4}),
               "\"n_head\" is 6, not a multiple of 4; the nearest sizes that divide it: 3 and 6");
  const auto columns = policy([](const Call& c) {
    c.on("h.*.attn.c_attn", "weft.linear_column/1", {text("layout", "in_out"), integer("fused", 3)});
  });
  EXPECT_TELLS(
      refusal(model, columns, {.tensor = 8}),
      "h.{0..1}.attn.c_attn has a weight with 12 elements along dimension 1 in each of 3 parts, which "
      "tensor_size 8 cannot share out; the nearest that can: 6 and 12");
  const auto parts = policy([](const Call& c) {
    c.on("h.*.attn.c_attn", "weft.linear_column/1", {text("layout", "in_out"), integer("fused", 5)});
  });
  EXPECT_TELLS(refusal(model, parts),
               "36 elements along dimension 1, which are not 5 equal parts (fused = 5)");
}

TEST(BuildPlan, RefusesRequirementsOnKeysThatAreNoIntegers) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.require_divides("n_heads", 2);
                                        c.require_divides("model_type", 1);
                                        c.require_divides("n_head", -1);
                                      }),
                                      {.tensor = 2});
  EXPECT_TELLS(
      message,
      "require_divides \"n_heads\" by 2: the configuration has no such key; did you mean \"n_head\"?");
  EXPECT_TELLS(message, "require_divides \"model_type\" by 1: the configuration's value is no integer");
  EXPECT_TELLS(message, "require_divides \"n_head\" by -1: the divisor must be at least 1");
}

TEST(BuildPlan, TellsAllProblemsTogether) {
  const std::string message = refusal(kModel, policy([](const Call& c) {
                                        c.on("x", "weft.attention/1");
                                        c.on("h.*.attn", "weft.atention/1");
                                        c.divide("ln_f", "num_heads", 2);
                                        c.tie("wte.weight", "wpe.weight");
                                        c.require_divides("n_head", 3);
                                      }));
  EXPECT_TELLS(message, ": 5 problems\n  ");
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 5) << message;
}

TEST(BuildPlan, RefusesAPolicyThatIsNotDeterministic) {
  static int num_runs = 0;
  num_runs = 0;
  const std::string counting = refusal(
      kModel, policy([](const Call& c) { c.on(num_runs++ == 0 ? "wte" : "wpe", "weft.embedding_vocab/1"); }));
  EXPECT_TELLS(counting, "the policy is not deterministic");
  EXPECT_TELLS(
      counting,
      "gave `replace \"wte\" \"weft.embedding_vocab/1\"`, then `replace \"wpe\" \"weft.embedding_vocab/1\"`");

  const std::string ordered = refusal(kModel, policy([](const Call& c) {
                                        weft_node first = {sizeof(weft_node), {}, {}, 0, 0};
                                        for (uint64_t i = 0; c.model->node(c.model->model, i, &first); ++i) {
                                          if (view(first.kind) == "LayerNorm") break;
                                        }
                                        c.on(std::string(view(first.path)), "weft.layer_norm/1");
                                      }));
  EXPECT_TELLS(ordered, "the policy is not deterministic");

  num_runs = 0;
  const Policy failing = {
      "invented",
      [](weft_str, const weft_model_view*, const weft_parallel*, const weft_plan_builder*,
         weft_error*) -> weft_status { return num_runs++ == 0 ? WEFT_OK : WEFT_INTERNAL; }};
  EXPECT_TELLS(refusal(kModel, failing), "not deterministic");
}

TEST(BuildPlan, PassesOnWhatAPolicyRefuses) {
  const Policy refusing = {
      "invented",
      [](weft_str, const weft_model_view*, const weft_parallel*, const weft_plan_builder*,
         weft_error*) -> weft_status { return WEFT_UNIMPLEMENTED; }};
  EXPECT_TELLS(refusal(kModel, refusing), "the policy failed with status 12 and no text");
}

TEST(BuildPlan, EndsAPolicyThatDoesNotEnd) {
  const Policy endless = {"invented", [](weft_str, const weft_model_view*, const weft_parallel*,
                                         const weft_plan_builder* plan, weft_error* error) {
                            weft_status status = WEFT_OK;
                            while (status == WEFT_OK)
                              status = plan->tie(plan->plan, WEFT_STR("a"), WEFT_STR("b"), error);
                            return status;
                          }};
  const ModelDescription small = {"Small", "{}", {node("a", "Linear")}, {}};
  EXPECT_TELLS(refusal(small, endless), "more than 100000 calls; does the policy end?");
}

TEST(BuildPlan, RefusesCallsThatBreakTheContractOfTheTable) {
  const std::string message = refusal(
      kModel, policy([](const Call& c) {
        weft_node node = {0, {}, {}, 0, 0};
        EXPECT_EQ(c.model->node(c.model->model, 0, &node), 0u);
        EXPECT_EQ(c.model->node_param(c.model->model, 0, 0, nullptr), 0u);
        c.plan->tie(c.plan->plan, weft_str{nullptr, 3}, WEFT_STR("wte.weight"), c.error);
        c.plan->divide(c.plan->plan, weft_str{"x", uint64_t{1} << 60}, WEFT_STR("n"), 1, c.error);
        c.plan->replace(c.plan->plan, WEFT_STR("wte"), WEFT_STR("weft.embedding_vocab/1"), nullptr, 3,
                        c.error);
        c.on("wpe", "weft.embedding_vocab/1", {{borrow("x"), 77, 0, 0, 0, {nullptr, 0}}});
        EXPECT_EQ(c.plan->divide(nullptr, WEFT_STR("wte"), WEFT_STR("n"), 1, c.error), WEFT_INVALID_ARGUMENT);
      }));
  EXPECT_TELLS(message, "node: struct_size is 0; set it to sizeof(weft_node)");
  EXPECT_TELLS(message, "node_param: the node_param to fill is NULL");
  EXPECT_TELLS(message, "tie: the first name has a size, but no data");
  EXPECT_TELLS(message, "divide: the pattern has 1152921504606846976 bytes");
  EXPECT_TELLS(message, "replace: \"wte\" has 3 attributes at NULL");
  EXPECT_TELLS(message, "an attribute has the kind 77, which is no WEFT_KIND_*");
}

TEST(BuildPlan, RefusesTablesAndDescriptionsThatAreIncomplete) {
  const auto refused = [](const weft_shard_policy& table) {
    return refusal_of([&] { policy_of(table, "invented"); });
  };
  const auto build = [](const weft_shard_policy*, weft_str, const weft_model_view*, const weft_parallel*,
                        const weft_plan_builder*, weft_error*) -> weft_status { return WEFT_OK; };
  EXPECT_TELLS(refused({8, nullptr, build}), "has no build function (struct_size 8");
  EXPECT_TELLS(refused({sizeof(weft_shard_policy), nullptr, nullptr}), "has no build function");

  ModelDescription twice = kModel;
  twice.nodes.push_back(twice.nodes.front());
  EXPECT_TELLS(refusal(twice, policy([](const Call&) {})), "two modules at the path \"wte\"");
  ModelDescription no_object = kModel;
  no_object.config_json = "[1]";
  EXPECT_TELLS(refusal(no_object, policy([](const Call&) {})), "must be a JSON object, found an array");
  EXPECT_TELLS(refusal(kModel, policy([](const Call&) {}), {.tensor = 0}),
               "tensor_size is 0, must be at least 1");
}

TEST(BuildPlan, ShowsThePolicyTheModel) {
  ModelDescription model = {
      "Small",
      R"({"n": 3, "r": 0.5, "b": true, "t": "x", "a": [1, 2], "z": null, "big": 18446744073709551615})",
      {},
      {}};
  model.nodes = {node("second", "Linear", {{"weight", {3, 4}}, {"bias", {3}}}), node("first", "Dropout")};
  const Plan plan =
      build_plan(model, policy([](const Call& c) {
                   const auto config = [&](const char* key) {
                     weft_kv kv = {};
                     return c.model->config(c.model->model, borrow(key), &kv) ? kv : weft_kv{};
                   };
                   EXPECT_EQ(view(c.model->architecture), "Small");
                   EXPECT_EQ(config("n").kind, uint32_t{WEFT_KIND_INT});
                   EXPECT_EQ(config("n").integer, 3);
                   EXPECT_EQ(config("r").real, 0.5);
                   EXPECT_EQ(config("b").kind, uint32_t{WEFT_KIND_BOOL});
                   EXPECT_EQ(view(config("t").text), "x");
                   EXPECT_EQ(view(config("a").text), "[1,2]");
                   EXPECT_EQ(config("a").kind, uint32_t{WEFT_KIND_JSON});
                   EXPECT_EQ(config("big").kind, uint32_t{WEFT_KIND_FLOAT});
                   EXPECT_EQ(config("z").kind, uint32_t{WEFT_KIND_NONE});
                   EXPECT_EQ(config("absent").kind, uint32_t{WEFT_KIND_NONE});
                   EXPECT_EQ(c.model->has_operation(c.model->model, WEFT_STR("weft.linear_row/1")), 1u);
                   EXPECT_EQ(c.model->has_operation(c.model->model, WEFT_STR("weft.linear_row/9")), 0u);
                   EXPECT_EQ(c.model->num_nodes(c.model->model), 2u);
                   bool found = false;
                   weft_node node = {sizeof(weft_node), {}, {}, 0, 0};
                   for (uint64_t i = 0; c.model->node(c.model->model, i, &node); ++i) {
                     if (view(node.path) != "second") continue;
                     found = true;
                     EXPECT_EQ(node.num_params, 2u);
                     weft_node_param param = {sizeof(weft_node_param), {}, 0, 0, {}};
                     EXPECT_EQ(c.model->node_param(c.model->model, i, 0, &param), 1u);
                     EXPECT_EQ(view(param.name), "weight");
                     EXPECT_EQ(param.ndim, 2u);
                     EXPECT_EQ(param.shape[1], 4);
                     EXPECT_EQ(c.model->node_param(c.model->model, i, 2, &param), 0u);
                   }
                   EXPECT_TRUE(found);
                 }),
                 {});
  EXPECT_EQ(plan.replicated.size(), 1u);  // a dropout has no parameters
}

TEST(EmptyPlan, RefusesATensorAxisAndNamesTheArchitecture) {
  for (const ParallelSizes& sizes : {ParallelSizes{.tensor = 2}, ParallelSizes{.sequence = 2}}) {
    try {
      empty_plan(kModel, sizes);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), WEFT_FAILED_PRECONDITION);
      EXPECT_TELLS(std::string(error.what()), "no shard policy for GPT2LMHeadModel was found");
    }
  }
}

TEST(EmptyPlan, ReplicatesEverythingOnDataAxes) {
  const Plan plan = empty_plan(kModel, {.data = 4});
  EXPECT_TRUE(plan.replacements.empty());
  EXPECT_EQ(plan.num_parameters, plan.num_local_parameters);
  EXPECT_EQ(plan.digest.size(), 64u);
  EXPECT_TRUE(unsupported(plan).empty());
}

TEST(Unsupported, NamesWhatIsNotPerformed) {
  const auto none = policy([](const Call&) {});
  EXPECT_TRUE(unsupported(build_plan(kModel, none, {})).empty());
  const auto split = unsupported(build_plan(kModel, none, {.tensor = 2, .sequence_mode = "split_gather"}));
  ASSERT_EQ(split.size(), 1u);
  EXPECT_TELLS(split[0], "policy \"invented\" has no entry that ends a split sequence");
  const auto axis = unsupported(build_plan(kModel, none, {.sequence = 2, .sequence_mode = "all_to_all"}));
  ASSERT_EQ(axis.size(), 3u);
  EXPECT_TELLS(axis[0], "has no entry that ends a split sequence");
  EXPECT_TELLS(axis[1], "has no entry that begins a split sequence");
  EXPECT_TELLS(axis[2], "has no entry for attention to all positions");
}

// An entry that ends a sequence only with a flag.
TEST(Unsupported, NamesTheEntryThatLacksAFlag) {
  const auto head = policy([](const Call& c) { c.on("lm_head", "weft.linear_vocab/1"); });
  const auto reasons = unsupported(build_plan(Gpt2{.tied = false}.describe(), head, kRing));
  ASSERT_FALSE(reasons.empty());
  EXPECT_TELLS(reasons[0], "has no entry that ends a split sequence");
  EXPECT_TELLS(reasons[0],
               "\"lm_head\" -> weft.linear_vocab/1 does so with split = true; set that, or leave");
}

TEST(Reject, GivesThePolicysReason) {
  const auto choosy = policy([](const Call& c) {
    c.plan->reject(c.plan->plan, borrow("two heads only; take another model"), c.error);
  });
  const std::string message = refusal(kModel, choosy);
  EXPECT_TELLS(message, "policy \"invented\" on GPT2LMHeadModel");
  EXPECT_TELLS(message, "two heads only; take another model");
}

}  // namespace
}  // namespace weft::plan::test
