// Activation recomputation: the same hooks, bitwise equal results, less memory.
#include <gtest/gtest.h>

#include "device/counting_allocator.hpp"
#include "support/expect_error.hpp"
#include "train/training/recorder.hpp"

namespace weft::test {

namespace {

constexpr const char* kDropout = "\"dropout\": 0.3";

struct Outcome {
  std::map<std::string, at::Tensor> gradients;
  std::vector<std::string> events;
  std::map<std::string, int> runs;
  double loss = 0;
};

Outcome train(const std::string& recompute, const std::string& keys = kDropout) {
  Recorder recorder;
  const auto model = make_toy(keys);
  const auto training = make_training(launch(), model, recorder, {.booster = {.recompute = recompute}});
  at::manual_seed(11);
  Outcome outcome;
  outcome.loss = training->run_step({toy_batch(3, 1), toy_batch(4, 2)}).total();
  outcome.gradients = gradients_of(*training);
  outcome.events = recorder.events;
  outcome.runs = model->runs();
  // The random generator is in the same state as without recomputation.
  outcome.gradients["drawn next"] = at::rand({4});
  return outcome;
}

TEST(Recompute, RefusesWhatIsNoNumberOfUnits) {
  for (const char* wrong : {"some", "6", "-1", "2x", ""})
    EXPECT_ERROR(make_single(make_toy(), {.booster = {.recompute = wrong}}), WEFT_INVALID_ARGUMENT,
                 "recompute is \"", wrong, "up to 5");
}

TEST(Recompute, ChangesNoBitWithDropout) {
  const Outcome plain = train("off");
  ASSERT_NE(plain.loss, train("off", "\"dropout\": 0.0").loss);
  for (const char* recompute : {"all", "2", "0"}) {
    const Outcome again = train(recompute);
    EXPECT_EQ(again.loss, plain.loss) << recompute;
    for (const auto& [name, gradient] : plain.gradients)
      EXPECT_TRUE(again.gradients.at(name).equal(gradient)) << recompute << " " << name;
  }
}

TEST(Recompute, FiresNoHookAgain) {
  EXPECT_EQ(train("all").events, train("off").events);
}

TEST(Recompute, RunsTheFirstUnitsTwice) {
  using Runs = std::map<std::string, int>;
  EXPECT_EQ(train("off").runs,
            (Runs{{"embed", 2}, {"blocks.0", 2}, {"blocks.1", 2}, {"blocks.2", 2}, {"head", 2}}));
  EXPECT_EQ(train("3").runs,
            (Runs{{"embed", 4}, {"blocks.0", 4}, {"blocks.1", 4}, {"blocks.2", 2}, {"head", 2}}));
  EXPECT_EQ(train("all").runs,
            (Runs{{"embed", 4}, {"blocks.0", 4}, {"blocks.1", 4}, {"blocks.2", 4}, {"head", 4}}));
}

TEST(Recompute, LeavesEvaluationAlone) {
  const auto model = make_toy(kDropout);
  const auto training = make_single(model, {.booster = {.recompute = "all"}});
  training->run_forward({toy_batch(3, 1)});
  EXPECT_EQ(model->runs().at("blocks.1"), 1);
}

TEST(Recompute, RefusesAUnitThatChangesItsInputInPlace) {
  const auto model = make_toy();
  model->spoil_input();
  const auto training = make_single(model, {.booster = {.recompute = "all"}});
  EXPECT_ERROR(training->run_step({toy_batch(3, 1)}), WEFT_INVALID_ARGUMENT, "blocks.1", "\"x\"", "in place");
}

TEST(Recompute, WorksInTheCallersOwnLoopOverSeveralForwards) {
  std::map<std::string, at::Tensor> gradients[2];
  for (const bool recompute : {false, true}) {
    const auto training =
        make_single(make_toy(kDropout), {.booster = {.recompute = recompute ? "all" : "off"}});
    at::manual_seed(5);
    const at::Tensor first = training->forward(toy_batch(3, 1)).at("logits").square().mean();
    const at::Tensor second = training->forward(toy_batch(3, 2)).at("logits").square().mean();
    training->backward(first + second);
    gradients[recompute] = gradients_of(*training);
  }
  for (const auto& [name, gradient] : gradients[0])
    EXPECT_TRUE(gradients[1].at(name).equal(gradient)) << name;
}

TEST(Recompute, KeepsNoActivationsOfTheUnits) {
  const auto held_after_forward = [](const char* recompute) {
    count_memory();
    const auto training =
        make_single(make_toy("\"blocks\": 8, \"width\": 32"), {.booster = {.recompute = recompute}});
    const Batch batch = toy_batch(64, 1);
    const int64_t before = allocated_bytes();
    const State outputs = training->forward(batch);
    return allocated_bytes() - before;
  };
  const int64_t field = 64 * 5 * 32 * 4;
  const int64_t with = held_after_forward("all"), without = held_after_forward("off");
  // One field is kept between two units, instead of the tensors of norm, linear, tanh and others.
  EXPECT_GT(with, 8 * field);
  EXPECT_LT(with, 12 * field);
  EXPECT_GT(without, 24 * field);
}

}  // namespace

}  // namespace weft::test
