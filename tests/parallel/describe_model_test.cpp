#include "apply/describe_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpt2_model.hpp"
#include "plans/plan/gpt2_policy.hpp"
#include "plans/plan/invented_policy.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/parameter_names.hpp"

namespace weft::plan::test {
namespace {

class Attention final : public nn::Layer {
 public:
  Attention()
      : query(register_module("query", std::make_shared<nn::Linear>(4, 4, /*bias=*/false, at::kFloat))) {}
  std::string kind() const override { return "Attention"; }
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }
  int64_t num_heads = 2;
  std::shared_ptr<nn::Linear> query;
};

// A model with base: { embed, attn: { query } } and head.
class Small : public nn::Model {
 public:
  Small() : nn::Model(Config::parse(R"({"heads": 2})", "test")) {
    auto base = register_module("base", std::make_shared<torch::nn::Module>());
    base->register_module("embed", std::make_shared<nn::Embedding>(5, 4, at::kFloat));
    attention = base->register_module("attn", std::make_shared<Attention>());
    register_module("head", std::make_shared<nn::Linear>(4, 5, /*bias=*/true, at::kFloat));
  }
  std::string architecture() const override { return "Small"; }
  std::string base_prefix() const override { return "base."; }
  std::vector<nn::Tie> ties() const override { return {{"head.weight", "base.embed.weight"}}; }

  std::vector<nn::Unit*> units() override { return {}; }
  State input(const Batch&) const override { return {}; }
  std::vector<nn::LossTerm> loss(const State&, const Batch&) const override { return {}; }
  std::vector<nn::LossCount> counts(const Batch&) const override { return {}; }
  State outputs(const State&) const override { return {}; }
  std::vector<nn::FieldShape> boundary(const Batch&, size_t) const override { return {}; }
  nn::Initial initial(std::string_view) const override { return nn::Initial::constant(0); }

  std::shared_ptr<Attention> attention;
};

const Node* find(const ModelDescription& model, std::string_view path) {
  const auto found = std::find_if(model.nodes.begin(), model.nodes.end(),
                                  [&](const Node& node) { return node.path == path; });
  return found == model.nodes.end() ? nullptr : &*found;
}

TEST(DescribeModel, RefusesToPlanWithAPolicyOfAnotherModel) {
  Small model;
  EXPECT_TELLS(
      refusal(describe_model(model), policy([](const Call& c) { c.on("embd", "weft.embedding_vocab/1"); })),
      "pattern \"embd\" matches no module; the nearest: embed");
}

TEST(DescribeModel, ListsPathsOfTheBaseModelAndHeadsBeside) {
  Small model;
  const ModelDescription description = describe_model(model);
  EXPECT_EQ(description.architecture, "Small");
  EXPECT_EQ(description.nodes.size(), 4u);
  EXPECT_EQ(find(description, "base"), nullptr);
  ASSERT_NE(find(description, "embed"), nullptr);
  EXPECT_EQ(find(description, "embed")->kind, "Embedding");
  EXPECT_EQ(find(description, "embed")->params.at(0).shape, (std::vector<int64_t>{5, 4}));
  ASSERT_NE(find(description, "attn.query"), nullptr);
  EXPECT_EQ(find(description, "attn.query")->params.size(), 1u);  // no bias
  ASSERT_NE(find(description, "head"), nullptr);
  EXPECT_EQ(find(description, "head")->params.size(), 2u);
  EXPECT_TRUE(find(description, "attn")->params.empty());
  ASSERT_EQ(find(description, "attn")->attributes.size(), 1u);
  EXPECT_EQ(find(description, "attn")->attributes[0].name, "num_heads");
  EXPECT_EQ(find(description, "attn")->attributes[0].value, 2);
  ASSERT_EQ(description.ties.size(), 1u);
  EXPECT_EQ(description.ties[0].canonical, "embed.weight");
}

// Checkpoints have the bias of its head under another path.
class Renamed final : public Small {
 public:
  Renamed() {
    const auto names = register_module("names", std::make_shared<nn::ParameterNames>());
    names->register_parameter("bias", named_parameters()["head.bias"]);
  }
  std::vector<nn::Tie> ties() const override {
    return {{"head.weight", "base.embed.weight"}, {"head.bias", "names.bias"}};
  }
};

TEST(DescribeModel, HasParametersInTheLayersThatComputeWithThem) {
  Renamed model;
  const ModelDescription description = describe_model(model);
  ASSERT_NE(find(description, "names"), nullptr);
  EXPECT_TRUE(find(description, "names")->params.empty());
  EXPECT_EQ(find(description, "head")->params.size(), 2u);
  ASSERT_EQ(description.ties.size(), 1u);
  EXPECT_EQ(description.ties[0].name, "head.weight");
}

TEST(DescribeModel, LeadsToAPlan) {
  Small model;
  const Policy split = policy([](const Call& c) {
    c.require_divides("heads", c.parallel->tensor_size);
    c.divide("attn", "num_heads", c.parallel->tensor_size);
    c.on("attn.query", "weft.linear_column/1");
    c.on("embed", "weft.embedding_vocab/1");
    c.on("head", "weft.linear_vocab/1");
    c.tie("embed.weight", "head.weight");
  });
  const std::string text = explain_model(model, split, {.tensor = 2});
  EXPECT_TELLS(text, "module      Embedding  1: embed\nmodule      Linear  2: attn.query, head\n");
  EXPECT_TELLS(text, "  1: attn\n");  // has no parameters
  EXPECT_TELLS(text, "weight (4, 4) -> (2, 4)");
  EXPECT_TELLS(text, "tie         embed.weight = head.weight");
  EXPECT_TELLS(text, "parameters  41, 23 on a rank");
  EXPECT_TELLS(explain_model(model, std::nullopt, {}), "no policy");
  EXPECT_EQ(model.attention->num_heads, 2);  // planning changes no layer
}

// Plans the shipped models with the shipped policy. The invented description of the other tests must equal
// the real one.
TEST(DescribeModel, PlansEveryGpt2Class) {
  for (const char* architecture :
       {"GPT2Model", "GPT2LMHeadModel", "GPT2DoubleHeadsModel", "GPT2ForSequenceClassification",
        "GPT2ForTokenClassification", "GPT2ForQuestionAnswering"}) {
    for (const bool tied : {true, false}) {
      const Gpt2 invented = {.architecture = architecture, .tied = tied};
      const Config config = Config::parse(
          fmt::format(R"({{"vocab_size": {}, "n_positions": {}, "n_embd": {}, "n_layer": {}, "n_head": {},
                                                          "num_labels": {}, "tie_word_embeddings": {}}})",
                      invented.vocabulary, invented.positions, invented.embedding, invented.layers,
                      invented.heads, invented.labels, tied),
          "test");
      const auto model = gpt2::make_model(config, architecture, at::kFloat);
      for (const uint32_t size : {1u, 2u, 4u}) {
        const Plan plan = build_plan(describe_model(*model), gpt2_policy(), {.tensor = size});
        const Plan wanted = build_plan(invented.describe(), gpt2_policy(), {.tensor = size});
        EXPECT_EQ(canonical_text(plan), canonical_text(wanted)) << architecture << " on " << size;
        EXPECT_EQ(plan.digest, wanted.digest);
      }
      const ParallelSizes split = {.tensor = 2, .sequence_mode = "split_gather"};
      EXPECT_EQ(build_plan(describe_model(*model), gpt2_policy(), split).on_split_sequence,
                build_plan(invented.describe(), gpt2_policy(), split).on_split_sequence);
    }
  }
}

}  // namespace
}  // namespace weft::plan::test
