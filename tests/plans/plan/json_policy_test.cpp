// JSON policies: what they may contain, what is refused, and that they make the same plans as policies in C.
#include "plan/json_policy.hpp"

#include <regex>

#include "gpt2_policy.hpp"
#include "invented_policy.hpp"

namespace weft::plan::test {
namespace {

// A translation of policies/gpt2/policy.c, line by line.
constexpr const char* kGpt2 = R"({"name": "gpt2", "entries": [
  {"require_divides": "n_head", "divisor": "head_ranks"},
  {"on": "wte", "operation": "weft.embedding_vocab/1"},
  {"on": "wpe", "operation": "weft.embedding/1"},
  {"on": "h.*.attn.c_attn", "operation": "weft.linear_column/1", "layout": "in_out", "fused": 3},
  {"on": "h.*.attn.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"},
  {"on": "h.*.mlp.c_fc", "operation": "weft.linear_column/1", "layout": "in_out"},
  {"on": "h.*.mlp.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"},
  {"on": "h.*.attn", "operation": "weft.attention/1"},
  {"on": "stream_end", "operation": "weft.sequence_end/1", "unless_module": "lm_head"},
  {"on": "stream_end", "operation": "weft.sequence_end/1", "if_module": "multiple_choice_head"},
  {"on": "stream_end", "operation": "weft.sequence_end/1",
   "if_module": "lm_head", "unless_module": "multiple_choice_head",
   "unless_parallel": {"split_over_sequence_axis": true, "parallel_output": true}},
  {"divide": "h.*.attn", "attribute": "num_heads", "by": "tensor_size"},
  {"on": "lm_head", "operation": "weft.linear_vocab/1", "parallel_output": "parallel_output",
   "if_module": "multiple_choice_head"},
  {"on": "lm_head", "operation": "weft.linear_vocab/1", "parallel_output": "parallel_output",
   "if_module": "lm_head", "unless_module": "multiple_choice_head",
   "unless_parallel": {"split_over_sequence_axis": true, "parallel_output": true}},
  {"on": "lm_head", "operation": "weft.linear_vocab/1", "parallel_output": true, "split": true,
   "if_module": "lm_head", "unless_module": "multiple_choice_head",
   "if_parallel": {"split_over_sequence_axis": true, "parallel_output": true}},
  {"tie": ["lm_head.weight", "wte.weight"],
   "if_module": "lm_head", "unless_config": {"tie_word_embeddings": false}}
]})";

Policy of(const std::string& entries) {
  return parse_json_policy(R"({"name": "invented", "entries": [)" + entries + "]}", "p.json");
}

std::string refusal_of_text(const std::string& text) {
  return refusal_of([&] { parse_json_policy(text, "p.json"); });
}
std::string refusal_of_entries(const std::string& entries) {
  return refusal_of([&] { of(entries); });
}
std::string refusal_of_plan(const std::string& entries, const ParallelSizes& sizes = {}) {
  return refusal_of([&] { build_plan(Gpt2{}.describe(), of(entries), sizes); });
}

TEST(JsonPolicy, MakesThePlanOfTheSamePolicyInC) {
  const Policy json = parse_json_policy(kGpt2, "p.json");
  for (const char* architecture : {"GPT2LMHeadModel", "GPT2Model", "GPT2DoubleHeadsModel"}) {
    for (const bool tied : {true, false}) {
      const ModelDescription model =
          Gpt2{.architecture = architecture, .embedding = 16, .heads = 8, .tied = tied}.describe();
      for (const uint32_t size : {1u, 2u, 4u}) {
        for (ParallelSizes sizes :
             {ParallelSizes{},
              {.fused_normalization = false, .flash_attention = false, .jit_fused = false},
              {.parallel_output = false},
              {.sequence_mode = "split_gather"},
              {.sequence_mode = "ring"},
              {.sequence = 2, .sequence_mode = "all_to_all"},
              {.sequence = 2, .parallel_output = false, .sequence_mode = "ring_attn"}}) {
          sizes.tensor = size;
          const Plan wanted = build_plan(model, gpt2_policy(), sizes);
          const Plan plan = build_plan(model, json, sizes);
          EXPECT_EQ(canonical_text(plan), canonical_text(wanted));
          EXPECT_EQ(plan.digest, wanted.digest) << architecture << " on " << size;
        }
      }
    }
  }
}

TEST(JsonPolicy, RefusesHeadsThatDoNotDivideAsThePolicyInCDoes) {
  const ModelDescription model = Gpt2{.embedding = 12, .heads = 6}.describe();
  const std::string message =
      refusal_of([&] { build_plan(model, parse_json_policy(kGpt2, "p.json"), {.tensor = 4}); });
  EXPECT_TELLS(message, "p.json, entry 1: ");
  EXPECT_EQ(std::regex_replace(message, std::regex("p.json, entry [0-9]+: "), ""),
            refusal(model, gpt2_policy(), {.tensor = 4}));
}

TEST(JsonPolicy, ReadsTheConfiguration) {
  const auto fused = [](const char* value) {
    const Plan plan = build_plan(
        Gpt2{}.describe(),
        of(fmt::format(R"({{"on": "h.*.mlp.c_fc", "operation": "weft.linear_column/1", "layout": "in_out",
                            "fused": {}}},
                          {{"on": "h.*.mlp.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"}})",
                       value)),
        {.tensor = 2});
    const std::string text = canonical_text(plan);
    return text.substr(text.find("fused="), 7);
  };
  EXPECT_EQ(fused(R"({"config": "n_head", "otherwise": 2})"), "fused=4");
  EXPECT_EQ(fused(R"({"config": "n_layer", "otherwise": 2})"), "fused=2");
  EXPECT_EQ(fused(R"({"config": "n_layer", "otherwise": {"config": "n_head", "otherwise": 1}})"), "fused=4");
  EXPECT_EQ(fused(R"({"config": "n_layer", "otherwise": "tensor_size"})"), "fused=2");
}

TEST(JsonPolicy, AppliesAnEntryIfAllItsConditionsHold) {
  const auto applies = [](const std::string& conditions) {
    const Plan plan = build_plan(Gpt2{}.describe(),
                                 of(R"({"on": "wpe", "operation": "weft.embedding/1", )" + conditions + "}"),
                                 {.tensor = 2});
    return !plan.replacements.empty();
  };
  for (const char* holds :
       {R"("if_module": "h.1.attn")", R"("unless_module": "h.2")", R"("if_config": {"n_head": 4})",
        R"("if_config": {"n_head": 4, "model_type": "gpt2"})", R"("unless_config": {"n_layer": 4})",
        R"("if_parallel": {"tensor_size": 2, "parallel_output": true})",
        R"("unless_parallel": {"tensor_size": 1})",
        R"("if_module": "wte", "unless_config": {"tie_word_embeddings": false})"})
    EXPECT_TRUE(applies(holds)) << holds;
  for (const char* fails :
       {R"("if_module": "h.2")", R"("if_module": "h.*")", R"("unless_module": "wte")",
        R"("if_config": {"n_head": 4, "model_type": "llama"})", R"("if_config": {"n_layer": 4})",
        R"("if_config": {"tie_word_embeddings": 1})", R"("unless_config": {"n_head": 4})",
        R"("if_parallel": {"tensor_size": 1})", R"("unless_parallel": {"parallel_output": true})",
        R"("if_module": "wte", "if_config": {"tie_word_embeddings": false})"})
    EXPECT_FALSE(applies(fails)) << fails;
}

TEST(JsonPolicy, RejectsWithTheReasonOfTheFile) {
  const std::string entry = R"({"reject": "only for two ranks", "unless_parallel": {"tensor_size": 2}})";
  EXPECT_TELLS(refusal_of_plan(entry, {.tensor = 4}), "only for two ranks");
  EXPECT_NO_THROW(build_plan(Gpt2{}.describe(), of(entry), {.tensor = 2}));
}

TEST(JsonPolicy, RefusesWhatIsNoPolicy) {
  EXPECT_TELLS(refusal_of_text("{\"name\": "), "p.json: not valid JSON");
  EXPECT_TELLS(refusal_of_text("[]"), "p.json: it is an array, must be an object");
  EXPECT_TELLS(refusal_of_text(R"({"name": "a", "entires": []})"),
               "the key \"entires\" is unknown; did you mean \"entries\"?");
  EXPECT_TELLS(refusal_of_text(R"({"entries": []})"), "p.json: \"name\" must be a plain name");
  EXPECT_TELLS(refusal_of_text(R"({"name": "../a", "entries": []})"),
               "p.json: \"name\" must be a plain name");
  EXPECT_TELLS(refusal_of_text(R"({"name": "a", "entries": {}})"), "p.json: \"entries\" must be an array");
  EXPECT_TELLS(refusal_of_text(R"({"name": "a", "name": "b", "entries": []})"), "appears twice");
}

TEST(JsonPolicy, TellsEverythingThatIsWrongWithItsEntryNumber) {
  const std::string message = refusal_of_entries(R"(
    {"on": "wte", "operation": "weft.embedding_vocab/1"},
    7,
    {"onn": "wte", "operation": "weft.embedding_vocab/1"},
    {"on": "wte", "opperation": "weft.embedding_vocab/1"},
    {"on": "wte", "tie": ["a", "b"]},
    {"divide": "h.*.attn", "attribute": "num_heads", "by": "tensor_sise"},
    {"divide": "h.*.attn", "attribute": "num_heads", "by": 1.5},
    {"divide": "h.*.attn", "attribute": "num_heads"},
    {"tie": ["a"]},
    {"require_divides": 3, "divisor": 2},
    {"on": "wte", "operation": "weft.embedding_vocab/1", "if_modul": "wte"},
    {"on": "ln_f", "operation": "weft.layer_norm/1", "fused": "parallel_outputs"},
    {"on": "ln_f", "operation": "weft.layer_norm/1", "fused": [1]},
    {"on": "ln_f", "operation": "weft.layer_norm/1", "fused": {"config": "a"}},
    {"reject": "no", "if_parallel": {"tensor": 1}},
    {"reject": "no", "if_parallel": {"tensor_size": true}},
    {"reject": "no", "if_config": "n_head"},
    {"reject": ""})");
  EXPECT_EQ(message.find("entry 1:"), std::string::npos) << message;
  for (const char* problem :
       {"p.json, entry 2: it is an integer, must be an object",
        "entry 3: it has none of on, divide, tie, require_divides, reject; did you mean \"on\"?",
        "entry 4: \"operation\" is missing; is \"opperation\" meant for it?",
        "entry 5: it has on and tie; an entry has one of them",
        "entry 6: \"tensor_sise\" is no size or flag of the axes; did you mean \"tensor_size\"?",
        "entry 7: \"by\" is a number, must be an integer", "entry 8: \"by\" is missing",
        "entry 9: \"tie\" is [\"a\"], must be [\"one parameter\", \"the other\"]",
        "entry 10: \"require_divides\" is an integer, must be a text",
        "entry 11: the key \"if_modul\" is unknown; did you mean \"if_module\"?",
        "entry 12: \"parallel_outputs\" is no size or flag of the axes; did you mean \"parallel_output\"?",
        "entry 13: \"fused\" is an array, must be a number, a flag, a text or {\"config\"",
        "entry 14: \"fused\" is {\"config\":\"a\"}, must be {\"config\": KEY, \"otherwise\": VALUE}",
        "entry 15: \"tensor\" is no size or flag of the axes",
        "entry 16: \"tensor_size\" of \"if_parallel\" is true or false, must be an integer",
        "entry 17: \"if_config\" is a text, must be an object", "entry 18: \"reject\" is empty"})
    EXPECT_TELLS(message, problem);
}

TEST(JsonPolicy, HasWhatIsWrongWithTheModelToldWithItsEntryNumber) {
  const std::string message = refusal_of_plan(R"(
    {"on": "wpe", "operation": "weft.embedding/1"},
    {"on": "h.*.attn.c_atn", "operation": "weft.linear_column/1"},
    {"on": "wte", "operation": "weft.embeding_vocab/1"},
    {"on": "ln_f", "operation": "weft.layer_norm/1", "fuse": true},
    {"on": "h.*.mlp.c_fc", "operation": "weft.linear_column/1", "layout": "in_out"},
    {"divide": "h.*.attn", "attribute": "num_heads", "by": 3},
    {"tie": ["wte.weight", "wpe.weight"]},
    {"require_divides": "n_head", "divisor": 3},
    {"reject": "no", "unless_module": "lm_head"},
    {"reject": "not this", "if_module": "lm_head"},
    {"on": "wp*", "operation": "weft.embedding/1"})",
                                              {.tensor = 7});
  EXPECT_TELLS(message, "policy \"invented\" on GPT2LMHeadModel");
  EXPECT_TELLS(message, ": 10 problems\n");
  for (const char* problem :
       {"p.json, entry 2: replace: pattern \"h.*.attn.c_atn\" matches no module",
        "p.json, entry 3: replace \"wte\": no operation is called \"weft.embeding_vocab/1\"; did you mean",
        "p.json, entry 4: replace \"ln_f\": attribute \"fuse\" of weft.layer_norm/1 is unknown",
        "p.json, entry 5: replace \"h.*.mlp.c_fc\": h.{0..1}.mlp.c_fc has a weight with 48 elements",
        "p.json, entry 6: divide \"h.*.attn\": h.{0..1}.attn has num_heads 4, not a multiple of 3",
        "p.json, entry 7: tie \"wte.weight\" = \"wpe.weight\": the model does not tie them",
        "p.json, entry 8: \"n_head\" is 4, not a multiple of 3", "p.json, entry 10: not this",
        "wpe replaced by 2 entries: p.json, entry 1: \"wpe\" -> weft.embedding/1, p.json, entry 11: \"wp*\""})
    EXPECT_TELLS(message, problem);
}

TEST(JsonPolicy, RefusesAConfigurationValueThatIsNoInteger) {
  EXPECT_TELLS(refusal_of_plan(R"({"require_divides": "n_embd", "divisor":
                                   {"config": "model_type", "otherwise": 1}})"),
               "p.json, entry 1: \"divisor\" comes to \"gpt2\", must be an integer");
}

TEST(JsonPolicy, IsNamedByAPath) {
  EXPECT_TRUE(is_json_policy("policy.json"));
  EXPECT_TRUE(is_json_policy("./policy"));
  EXPECT_FALSE(is_json_policy("mlp_only"));
  EXPECT_FALSE(is_json_policy(""));
}

}  // namespace
}  // namespace weft::plan::test
