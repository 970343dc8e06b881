// What fails, and what is left afterwards.
#include <gtest/gtest.h>

#include "engine/training/recorder.hpp"
#include "optim/optimizer_state.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

// A step and an update; what the optimizer does not touch is left as it was.
void step_and_update(const std::shared_ptr<weft_training>& training, optim::Optimizer& optimizer) {
  training->run_step({toy_batch(4, 1)});
  optimizer.step();
  optimizer.zero_grad();
}

void expect_a_later_job_works() {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy("\"dropout\": 0.2"), recorder, {"fp32", "all", 42});
  at::manual_seed(3);
  training->run_step({toy_batch(4, 1)});
  const auto reference = make_single(make_toy("\"dropout\": 0.2"));
  at::manual_seed(3);
  reference->run_step({toy_batch(4, 1)});
  for (const auto& [name, gradient] : gradients_of(*reference))
    EXPECT_TRUE(gradients_of(*training).at(name).equal(gradient)) << name;
}

class FailingHook : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(FailingHook, ReachesTheCallerAndEndsTheTrainingAlone) {
  const std::string hook = std::get<0>(GetParam()), recompute = std::get<1>(GetParam());
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder, {"fp32", recompute, 42});
  optim::Optimizer optimizer = optim::SGD({{"wte.weight"}}, {.lr = 0.1});
  optimizer.shared().attach(training);
  step_and_update(training, optimizer);
  recorder.on_event = [&](const std::string& event) {
    if (event.starts_with(hook)) throw Error(WEFT_RESOURCE_EXHAUSTED, "no memory left");
  };
  EXPECT_ERROR(step_and_update(training, optimizer), WEFT_RESOURCE_EXHAUSTED, "recorder", "no memory left");
  recorder.on_event = nullptr;
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { training->run_step({toy_batch(4, 1)}); }, [&] { training->run_forward(toy_batch(4, 1)); },
           [&] { training->forward(toy_batch(4, 1)); }, [&] { optimizer.step(); },
           [&] { optimizer.zero_grad(); }, [&] { training->publish(); }})
    EXPECT_ERROR(use(), WEFT_FAILED_PRECONDITION, "recorder", "an earlier step failed", "no memory left",
                 "checkpoint");
  expect_a_later_job_works();
}

INSTANTIATE_TEST_SUITE_P(Each, FailingHook,
                         testing::Combine(testing::Values("before_forward blocks.1", "after_forward blocks.2",
                                                          "begin_backward", "before_backward blocks.1",
                                                          "gradient_ready blocks.1.linear.weight",
                                                          "after_backward blocks.2", "after_backward embed",
                                                          "end_backward", "values_changed", "zero_gradients"),
                                          testing::Values("off", "all")));

TEST(FailingStrategy, MakesNoTrainingWhenItsSetUpFails) {
  for (const char* hook : {"create", "configure"}) {
    Recorder recorder;
    recorder.on_event = [&](const std::string& event) {
      if (event == hook) throw Error(WEFT_UNAVAILABLE, "not here");
    };
    EXPECT_ERROR(make_training(launch(), make_toy(), recorder), WEFT_UNAVAILABLE, "recorder: not here");
    EXPECT_EQ(recorder.of("destroy").size(), std::string(hook) == "create" ? 0 : 1);
  }
  expect_a_later_job_works();
}

TEST(FailingStrategy, IsNamedWhenItsMeshOrScheduleOrRecordsFail) {
  const auto fails = [](auto&&...) { throw Error(WEFT_ABORTED, "no more"); };
  Recorder mesh;
  mesh.describe_mesh = fails;
  EXPECT_ERROR(make_training(launch(), make_toy(), mesh), WEFT_ABORTED, "recorder: no more");
  EXPECT_EQ(mesh.of("destroy").size(), 1);
  Recorder schedule;
  schedule.run_step = fails;
  const auto training = make_training(launch(), make_toy(), schedule);
  EXPECT_ERROR(training->run_step({toy_batch(2, 1)}), WEFT_ABORTED, "recorder: no more");
  EXPECT_ERROR(training->run_step({toy_batch(2, 1)}), WEFT_FAILED_PRECONDITION, "an earlier step failed");
  Recorder records;
  records.publish = fails;
  EXPECT_ERROR(make_training(launch(), make_toy(), records)->publish(), WEFT_ABORTED, "recorder: no more");
}

TEST(FailingStrategy, LeavesNoHooksOnTheModel) {
  const auto model = make_toy();
  Recorder recorder;
  recorder.configure = [&](weft_training* training) {
    recorder.bind_whole(training);
    throw Error(WEFT_UNAVAILABLE, "too late");
  };
  EXPECT_ERROR(make_training(launch(), model, recorder), WEFT_UNAVAILABLE, "too late");
  recorder.events.clear();
  model->parameters()[0].sum().backward();
  EXPECT_TRUE(recorder.events.empty());
}

TEST(FailingStrategy, IsNamedWhenAnExceptionIsNotWefts) {
  Recorder recorder;
  recorder.on_event = [](const std::string& event) {
    if (event == "after_forward embed") at::ones({2}).add(at::ones({3}));
  };
  const auto training = make_training(launch(), make_toy(), recorder);
  try {
    training->run_step({toy_batch(2, 1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("recorder: The size of tensor a (2)"), 0) << error.what();
    EXPECT_EQ(std::string(error.what()).find("frame #"), std::string::npos) << error.what();
  }
}

TEST(RefusedBatch, LeavesTheTrainingAsItWas) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  Batch wrong = toy_batch(4, 1), unlabelled = toy_batch(4, 1), ignored = toy_batch(4, 1);
  wrong.set("ids", wrong.at("ids") + 100);
  unlabelled.erase("labels");
  ignored.set("labels", at::full({4, 5}, -100, at::kLong));
  recorder.events.clear();
  EXPECT_ERROR(training->run_step({wrong}), WEFT_INVALID_ARGUMENT, "ids");
  EXPECT_ERROR(training->run_step({unlabelled}), WEFT_INVALID_ARGUMENT, "ToyModel", "no labels");
  EXPECT_ERROR(training->run_step({toy_batch(4, 1), unlabelled}), WEFT_INVALID_ARGUMENT, "no labels");
  EXPECT_ERROR(training->run_step({ignored}), WEFT_INVALID_ARGUMENT, "no label of \"loss\"");
  EXPECT_ERROR(training->run_forward(wrong), WEFT_INVALID_ARGUMENT, "ids");
  EXPECT_ERROR(training->forward(wrong), WEFT_INVALID_ARGUMENT, "ids");
  EXPECT_ERROR(training->backward(at::ones({2})), WEFT_INVALID_ARGUMENT, "one element", "2");
  EXPECT_EQ(recorder.events, std::vector<std::string>());
  training->run_step({toy_batch(4, 1)});
  const auto reference = make_single(make_toy());
  reference->run_step({toy_batch(4, 1)});
  EXPECT_TRUE(gradients_of(*training).at("wte.weight").equal(gradients_of(*reference).at("wte.weight")));
}

TEST(RefusedBatch, InTheMiddleOfAStepEndsTheTraining) {
  const auto training = make_single(make_toy());
  Batch wrong = toy_batch(4, 1);
  wrong.set("ids", wrong.at("ids") + 100);
  EXPECT_ERROR(training->run_step({toy_batch(4, 1), wrong}), WEFT_INVALID_ARGUMENT, "ids");
  EXPECT_ERROR(training->run_step({toy_batch(4, 1)}), WEFT_FAILED_PRECONDITION,
               "none: an earlier step failed");
}

TEST(OwnBackward, IsRefusedUnlessItGoesThroughTheHost) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  const at::Tensor loss = training->forward(toy_batch(2, 2)).at("logits").sum();
  recorder.events.clear();
  EXPECT_ERROR(loss.backward(), WEFT_FAILED_PRECONDITION, "Booster::backward");
  EXPECT_TRUE(recorder.events.empty());
}

TEST(OwnBackward, IsRefusedASecondTimeThroughOneForward) {
  const auto training = make_single(make_toy());
  const at::Tensor logits = training->forward(toy_batch(2, 2)).at("logits");
  training->backward(logits.sum());
  EXPECT_ERROR(training->backward(logits.square().sum()), WEFT_FAILED_PRECONDITION, "head",
               "second backward");
}

TEST(OwnBackward, IsRefusedOnceTheTrainingIsGone) {
  const auto model = make_toy();
  auto training = make_single(model);
  const at::Tensor loss = training->forward(toy_batch(2, 2)).at("logits").sum();
  training.reset();
  EXPECT_ERROR(loss.backward(), WEFT_FAILED_PRECONDITION, "training has ended");
  // The tensors of the model are plain ones again.
  model->parameters()[0].sum().backward();
}

WEFT_RANKS_TEST(FailingHookOnOneRank, EndsItThere, 2) {
  Recorder recorder;
  const auto training = make_training(world, make_toy(), recorder);
  training->run_step({toy_batch(2, world.rank())});
  if (world.rank() == 0) return;
  recorder.on_event = [](const std::string& event) {
    if (event == "before_forward blocks.1") throw Error(WEFT_DATA_LOSS, "gone");
  };
  EXPECT_ERROR(training->run_forward(toy_batch(2, 1)), WEFT_DATA_LOSS, "recorder: gone");
  EXPECT_ERROR(training->run_forward(toy_batch(2, 1)), WEFT_FAILED_PRECONDITION,
               "earlier step failed (recorder: gone)");
}

}  // namespace

}  // namespace weft::test
