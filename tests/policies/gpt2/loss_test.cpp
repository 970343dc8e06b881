// Losses and counts that the oracles do not cover.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

std::map<std::string, double> counts_of(const nn::Model& model, const Batch& batch) {
  std::map<std::string, double> counts;
  for (const nn::LossCount& count : model.counts(batch)) counts[count.name] = count.count;
  return counts;
}

TEST(Gpt2Loss, CountsNextTokensThatAreNotIgnored) {
  const Oracle oracle = Oracle::load("GPT2LMHeadModel");
  const auto model = make_model(oracle.config, oracle.architecture);
  const at::Tensor labels = oracle.inputs.at("labels");
  const double expected = labels.slice(1, 1).ne(-100).sum().item<double>();
  EXPECT_EQ(counts_of(*model, oracle.batch()), (std::map<std::string, double>{{"loss", expected}}));
}

TEST(Gpt2Loss, CountsEachTermForItself) {
  const Oracle double_heads = Oracle::load("GPT2DoubleHeadsModel.last_position");
  EXPECT_EQ(counts_of(*make_model(double_heads.config, double_heads.architecture), double_heads.batch())
                .at("mc_loss"),
            2);
  const Oracle answers =
      Oracle::load("GPT2ForQuestionAnswering");  // starts 0 4 11 -3 2, ends 6 10 3 40 2 of 11
  EXPECT_EQ(counts_of(*make_model(answers.config, answers.architecture), answers.batch()),
            (std::map<std::string, double>{{"start_loss", 4}, {"end_loss", 4}}));
}

TEST(Gpt2Loss, IsAbsentWithoutLabels) {
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    const auto model = make_model(oracle.config, oracle.architecture);
    bind_weights(*model, oracle.weights);
    Batch batch = oracle.batch();
    for (const char* name : {"labels", "mc_labels", "start_positions", "end_positions"}) batch.erase(name);
    EXPECT_TRUE(model->counts(batch).empty()) << file;
    EXPECT_TRUE(model->loss(run(*model, batch), batch).empty()) << file;
  }
}

}  // namespace

}  // namespace weft::test
