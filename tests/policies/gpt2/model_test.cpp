// Names, ties, units and initial values.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "gpt2_model.hpp"
#include "policies/oracle.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<gpt2::Gpt2Model>(config, gpt2::find_architecture(architecture), dtype);
}

namespace {

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "n_positions": 6, "n_embd": 8, "n_head": 2, "n_layer": 3, "initializer_range": 0.05})",
    "config.json");

TEST(Gpt2Model, RefusesUnknownClassesNamingTheSix) {
  EXPECT_ERROR(make_model(kSmall, "GPT2LMHeadModle"), WEFT_NOT_FOUND, "GPT2LMHeadModle",
               "did you mean \"GPT2LMHeadModel\"?", "GPT2Model", "GPT2DoubleHeadsModel",
               "GPT2ForSequenceClassification", "GPT2ForTokenClassification", "GPT2ForQuestionAnswering");
}

TEST(Gpt2Model, TiesTheHeadToTheEmbeddingUnlessTold) {
  const auto tied = make_model(kSmall, "GPT2LMHeadModel");
  const auto parameters = tied->named_parameters();
  EXPECT_EQ(parameters["lm_head.weight"].unsafeGetTensorImpl(),
            parameters["transformer.wte.weight"].unsafeGetTensorImpl());
  ASSERT_EQ(tied->ties().size(), 1);
  EXPECT_EQ(tied->ties()[0].name, "lm_head.weight");
  EXPECT_EQ(tied->ties()[0].canonical, "transformer.wte.weight");
  const auto untied = make_model(kSmall.with_json("tie_word_embeddings", "false"), "GPT2LMHeadModel");
  EXPECT_NE(untied->named_parameters()["lm_head.weight"].unsafeGetTensorImpl(),
            untied->named_parameters()["transformer.wte.weight"].unsafeGetTensorImpl());
  EXPECT_TRUE(untied->ties().empty());
}

TEST(Gpt2Model, IsMadeWithoutMemoryInTheTypeGiven) {
  for (const auto& item :
       make_model(kSmall, "GPT2ForTokenClassification", at::kBFloat16)->named_parameters()) {
    EXPECT_TRUE(item.value().is_meta()) << item.key();
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
    EXPECT_EQ(item.value().scalar_type(), at::kBFloat16) << item.key();
  }
}

TEST(Gpt2Model, HasOraclesOfAllSixClasses) {
  std::set<std::string> classes;
  for (const std::string& file : Oracle::files()) classes.insert(Oracle::load(file).architecture);
  EXPECT_EQ(classes.size(), 6);
}

TEST(Gpt2Model, UnitsUseEveryParameter) {
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    const auto model = make_model(oracle.config, oracle.architecture);
    std::set<const void*> used;
    std::vector<std::string> names;
    for (nn::Unit* unit : model->units()) {
      names.push_back(unit->name());
      for (torch::nn::Module* module : unit->modules()) {
        for (const at::Tensor& parameter : module->parameters()) used.insert(parameter.unsafeGetTensorImpl());
      }
    }
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(used.contains(item.value().unsafeGetTensorImpl())) << file << " " << item.key();
    }
    EXPECT_EQ(names.front(), "prologue");
    EXPECT_EQ(names[1], "h.0");
    EXPECT_EQ(names.back(), "epilogue");
  }
}

TEST(Gpt2Model, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "GPT2DoubleHeadsModel");
  const auto deviation = [&](const char* name) { return model->initial(name).second; };
  EXPECT_EQ(deviation("transformer.wte.weight"), 0.05);
  EXPECT_EQ(deviation("transformer.h.0.attn.c_attn.weight"), 0.05);
  EXPECT_DOUBLE_EQ(deviation("transformer.h.2.mlp.c_proj.weight"), 0.05 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviation("transformer.h.1.attn.c_proj.weight"), 0.05 / std::sqrt(6.0));
  EXPECT_EQ(deviation("multiple_choice_head.summary.weight"), 0.05);
  EXPECT_EQ(model->initial("transformer.h.0.attn.c_attn.bias").first, 0);
  EXPECT_EQ(model->initial("transformer.ln_f.weight").first, 1);
  EXPECT_EQ(model->initial("transformer.h.0.ln_1.weight").kind, nn::Initial::Kind::kConstant);
}

TEST(Gpt2Model, IgnoresMasksOfOldCheckpointsOnly) {
  const auto model = make_model(kSmall, "GPT2LMHeadModel");
  EXPECT_TRUE(model->ignored_on_load("transformer.h.0.attn.bias"));
  EXPECT_TRUE(model->ignored_on_load("h.11.attn.masked_bias"));
  EXPECT_FALSE(model->ignored_on_load("transformer.h.0.attn.c_attn.bias"));
  EXPECT_FALSE(model->ignored_on_load("score.weight"));
}

TEST(Gpt2Model, DropsOutInTrainingOnly) {
  const auto model = make_model(kSmall, "GPT2Model");
  bind_random(*model, 3);
  const Batch batch = {{"input_ids", at::arange(6).view({1, 6})}};
  const auto output = [&] { return run(*model, batch).at("last_hidden_state"); };
  EXPECT_FALSE(output().equal(output()));
  at::manual_seed(5);
  const at::Tensor first = output();
  at::manual_seed(5);
  EXPECT_TRUE(output().equal(first));
  model->eval();
  EXPECT_TRUE(output().equal(output()));
}

}  // namespace

}  // namespace weft::test
