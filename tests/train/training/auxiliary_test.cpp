// Auxiliary losses that layers add to the model's.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "apply/make_context.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

constexpr const char* kBalance = R"("balance": 0.3)";

JobOptions fp64(const std::string& strategy = "none", const std::string& options = "{}") {
  return {.strategy = strategy, .options = options, .precision = "fp64"};
}

struct ByHand {
  Tensors gradients;
  double loss = 0, balance = 0;
};

// Computes the mean loss over labels plus 0.3 times the mean over positions of what the blocks add, with
// libtorch alone.
ByHand by_hand(const Batch& batch) {
  const Job job = boost(one_rank(), toy(fp64(), kBalance), fp64());
  nn::Model& model = job.model.module();
  State state = model.input(batch);
  nn::ForwardContext context({{"", batch.at("ids").size(1), batch.at("ids").size(0), {}}});
  const nn::RunningUnit running(context, 0);
  for (nn::Unit* unit : model.units()) unit->forward(state);
  const at::Tensor loss = model.loss(state, batch)[0].sum / model.counts(batch)[0].count;
  at::Tensor balance = at::zeros({}, at::kDouble);
  for (const nn::AuxiliaryLoss& added : context.take_losses()) balance = balance + added.sum;
  balance = balance * (0.3 / static_cast<double>(batch.at("ids").numel()));
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  for (const auto& item : model.named_parameters()) {
    names.push_back(item.key());
    parameters.push_back(item.value());
  }
  const auto gradients = torch::autograd::grad({loss + balance}, parameters);
  ByHand result{{}, loss.item<double>(), balance.item<double>()};
  for (size_t i = 0; i < names.size(); ++i) result.gradients[names[i]] = gradients[i];
  return result;
}

void expect_by_hand(const World& world, const JobOptions& options, const Batch& batch,
                    const ByHand& expected) {
  const int64_t samples = batch.at("ids").size(0);
  const Batch own =
      part_of(batch, samples * world.rank() / world.size(), samples * (world.rank() + 1) / world.size());
  Job job = boost(world, toy(options, kBalance), options);
  Tensors gradients = values_of(job);
  const StepResult step = job.train_step(own);
  EXPECT_NEAR(step.loss, expected.loss + expected.balance, 1e-10);
  EXPECT_NEAR(step.auxiliary_loss.value(), expected.balance, 1e-10);
  for (auto& [name, value] : values_of(job)) gradients[name] -= value;
  expect_near(gradients, expected.gradients, 1e-10);
}

class Auxiliary : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }
};

// Also on the first of two stages, whose backward does not begin with the loss.
TEST_F(Auxiliary, LossesReachTheGradientsOnce) {
  const Batch batch = toy_batch(7, 3);
  const ByHand expected = by_hand(batch);
  for (const char* schedule : {"none", "reverse", "all_forward", "two_stages"})
    for (const char* recompute : {"off", "all", "2"}) {
      SCOPED_TRACE(std::string(schedule) + " " + recompute);
      JobOptions options = fp64();
      if (schedule != std::string("none"))
        options = fp64("scripted", R"({"release": true, "schedule": ")" + std::string(schedule) + "\"}");
      options.recompute = recompute;
      options.accumulate = 3;
      if (options.strategy == "none") expect_by_hand(one_rank(), options, batch, expected);
      // The strategy frees the layers' parameters after the step, so compare the published gradients.
      Job job = boost(one_rank(), toy(options, kBalance), options);
      EXPECT_NEAR(job.accumulate_gradients(batch), expected.loss + expected.balance, 1e-10);
      for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK))
        EXPECT_TRUE(is_near(shard.gradient, expected.gradients.at(shard.param->name).flatten(), 1e-10))
            << shard.param->name;
    }
}

// Ranks have different numbers of samples and labels.
TEST_F(Auxiliary, LossesAreAMeanOverTheGlobalBatch) {
  const Batch batch = toy_batch(7, 4);
  const ByHand expected = by_hand(batch);
  on_ranks({2, 3}, [&](World& world) {
    for (const int64_t accumulate : {1, 2})
      for (const char* recompute : {"off", "all"}) {
        JobOptions options = fp64("torch_ddp");
        options.accumulate = accumulate;
        options.recompute = recompute;
        expect_by_hand(world, options, batch, expected);
      }
  });
}

TEST_F(Auxiliary, LossesAreReportedAsTerms) {
  const Batch batch = toy_batch(6, 5);
  const ByHand expected = by_hand(batch);
  Job job = boost(one_rank(), toy(fp64(), kBalance), fp64());
  const Training::StepLoss loss =
      job.model.shared().training->run_step({part_of(batch, 0, 2), part_of(batch, 2, 6)});
  EXPECT_EQ(loss.names, (std::vector<std::string>{"loss", "balance"}));
  EXPECT_EQ(loss.model_terms, 1);
  EXPECT_FALSE(boost(one_rank(), toy(fp64()), fp64()).train_step(batch).auxiliary_loss.has_value());
  EXPECT_NEAR(loss.parts[0], expected.loss, 1e-10);
  EXPECT_NEAR(loss.parts[1], expected.balance, 1e-10);
  const Evaluation evaluation = job.evaluate(batch);
  ASSERT_EQ(evaluation.terms.size(), 2);
  EXPECT_EQ(evaluation.terms[1].name, "balance");
  EXPECT_NEAR(evaluation.terms[1].sum / evaluation.terms[1].count, expected.balance, 1e-10);
  EXPECT_NEAR(evaluation.loss(), expected.loss + expected.balance, 1e-10);
}

// Both of two stages have blocks that add to the loss.
TEST_F(Auxiliary, LossesOfAllStagesAreReported) {
  const Batch batch = toy_batch(6, 8);
  const ByHand expected = by_hand(batch);
  on_ranks({2}, [&](World& world) {
    for (const char* last : {"0", "1"}) {
      const JobOptions options = fp64(
          "scripted", R"({"schedule": "two_ranks", "stages": 2, "last_stage": )" + std::string(last) + "}");
      Job job = boost(world, toy(options, kBalance), options);
      const Evaluation evaluation = job.evaluate(batch);
      EXPECT_NEAR(evaluation.loss(), expected.loss + expected.balance, 1e-10);
      EXPECT_EQ(evaluation.terms.size(), 2);
      const StepResult step = job.train_step(batch);
      EXPECT_NEAR(step.loss, expected.loss + expected.balance, 1e-10);
      EXPECT_NEAR(step.auxiliary_loss.value(), expected.balance, 1e-10);
    }
  });
}

// A criterion is averaged over micro-batches and ranks, and so are auxiliary losses.
TEST_F(Auxiliary, LossesJoinACriterion) {
  const Batch batch = toy_batch(6, 6);
  const ByHand expected = by_hand(batch);
  BoosterOptions options;
  options.precision = "fp64";
  options.accumulate = 3;
  Model model = toy(fp64(), kBalance);
  const Criterion nothing = [](const State& outputs, const Batch&) { return outputs.at("logits").sum() * 0; };
  Job job = Booster(options, one_rank()).boost(model, optim::SGD(model.parameters(), {.lr = 1}), nothing);
  const StepResult step = job.train_step(batch);
  EXPECT_NEAR(step.loss, expected.balance, 1e-10);
  EXPECT_NEAR(step.auxiliary_loss.value(), expected.balance, 1e-10);
}

TEST_F(Auxiliary, LossesAreAnOutputInALoopOfTheCallersOwn) {
  const Batch batch = toy_batch(6, 7);
  const ByHand expected = by_hand(batch);
  Job job = boost(one_rank(), toy(fp64(), kBalance), fp64());
  Training& training = *job.model.shared().training;
  Bindings& bindings = training.bindings();
  const State outputs = training.forward(batch);
  EXPECT_NEAR(outputs.at("aux_loss").item<double>(), expected.balance, 1e-10);
  const at::Tensor loss =
      bindings.model().loss(outputs, batch)[0].sum / bindings.model().counts(batch)[0].count;
  training.backward(loss + outputs.at("aux_loss"));
  for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK))
    EXPECT_TRUE(is_near(shard.gradient, expected.gradients.at(shard.param->name).flatten(), 1e-10))
        << shard.param->name;
}

}  // namespace

}  // namespace weft::test
