// Failures of strategies and steps, and the state after them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "optim/optimizer_state.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"
#include "train/training/recorder.hpp"

namespace weft::test {

namespace {

// Runs a step and an update.
void step_and_update(const std::shared_ptr<Training>& training, optim::Optimizer& optimizer) {
  training->run_step({toy_batch(4, 1)});
  optimizer.step();
  optimizer.zero_grad();
}

// Runs a step as the host does, without the parts that are left out.
void drive(Recorder& recorder, weft_step* step, const std::string& left_out) {
  const weft_step_services& services = the_step_services();
  const uint32_t count = services.micro_count(step) - (left_out == "micro-batch" ? 1 : 0);
  for (uint32_t micro = 0; micro < count; ++micro) {
    weft_state* state = nullptr;
    call([&](weft_error* e) { return services.input(step, micro, &state, e); });
    for (const auto& unit : recorder.training->units())
      if (left_out != "unit" || unit->index != 2)
        call([&](weft_error* e) { return services.forward(step, micro, unit.get(), state, e); });
    if (left_out != "finish") call([&](weft_error* e) { return services.finish(step, micro, state, e); });
    if (services.training(step) != 0 && left_out != "backward")
      call([&](weft_error* e) { return services.backward(step, micro, nullptr, nullptr, e); });
    services.state_destroy(state);
  }
}

void expect_a_later_job_works() {
  Recorder recorder;
  const auto training =
      make_training(launch(), make_toy("\"dropout\": 0.2"), recorder, {.booster = {.recompute = "all"}});
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
  const auto training = make_training(launch(), make_toy(), recorder, {.booster = {.recompute = recompute}});
  optim::Optimizer optimizer = optim::SGD({{"wte.weight"}}, {.lr = 0.1});
  optimizer.shared().attach(shared_bindings(training));
  step_and_update(training, optimizer);
  recorder.on_event = [&](const std::string& event) {
    if (event.starts_with(hook)) throw Error(WEFT_RESOURCE_EXHAUSTED, "no memory left");
  };
  EXPECT_ERROR(step_and_update(training, optimizer), WEFT_RESOURCE_EXHAUSTED, "recorder", "no memory left");
  recorder.on_event = nullptr;
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { training->run_step({toy_batch(4, 1)}); }, [&] { training->run_forward({toy_batch(4, 1)}); },
           [&] { training->forward(toy_batch(4, 1)); }, [&] { optimizer.step(); },
           [&] { optimizer.zero_grad(); }, [&] { training->bindings().publish(WEFT_REASON_CHECK); }})
    EXPECT_ERROR(use(), WEFT_FAILED_PRECONDITION, "recorder", "earlier step", "no memory left", "checkpoint");
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

constexpr auto kFails = [](auto&&...) { throw Error(WEFT_ABORTED, "no more"); };

TEST(FailingStrategy, IsNamedWhenItsMeshOrScheduleOrRecordsFail) {
  Recorder mesh;
  mesh.describe_mesh = kFails;
  EXPECT_ERROR(make_training(launch(), make_toy(), mesh), WEFT_ABORTED, "recorder: no more");
  EXPECT_EQ(mesh.of("destroy").size(), 1);
  Recorder records;
  records.publish = kFails;
  EXPECT_ERROR(make_training(launch(), make_toy(), records), WEFT_ABORTED, "recorder: no more");
  EXPECT_EQ(records.of("destroy").size(), 1);
  Recorder later;
  const auto training = make_training(launch(), make_toy(), later);
  later.publish = kFails;
  EXPECT_ERROR(training->bindings().publish(WEFT_REASON_CHECK), WEFT_ABORTED, "recorder: no more");
  Recorder schedule;
  schedule.run_step = kFails;
  const auto driven = make_training(launch(), make_toy(), schedule);
  EXPECT_ERROR(driven->run_step({toy_batch(2, 1)}), WEFT_ABORTED, "recorder: no more");
  EXPECT_ERROR(driven->run_step({toy_batch(2, 1)}), WEFT_FAILED_PRECONDITION, "earlier step");
}

// One rank fails while the training is made. Both throw, and neither waits for the other.
WEFT_RANKS_TEST(FailingStrategyOnOneRank, EndsTheSetUpOfAll, 2) {
  const std::string text = world.rank() == 1 ? "recorder: no more" : "rank 1 failed: recorder: no more";
  Recorder mesh, records;
  if (world.rank() == 1) mesh.describe_mesh = kFails;
  if (world.rank() == 1) records.publish = kFails;
  EXPECT_ERROR(make_training(world, make_toy(), mesh), WEFT_ABORTED, text);
  EXPECT_ERROR(make_training(world, make_toy(), records), WEFT_ABORTED, text);
  world.block_all();
}

// In a step the process of the rank that failed ends, and with it the wait of the other.
WEFT_RANKS_TEST(FailingStrategyOnOneRank, EndsTheStepOfAll, 2) {
  Recorder recorder;
  recorder.run_step = [&](weft_step* step) {
    if (world.rank() == 1) kFails();
    drive(recorder, step, "");
  };
  const auto training = make_training(world, make_toy(), recorder);
  if (world.rank() == 1)
    EXPECT_ERROR(training->run_step({toy_batch(2, 1)}), WEFT_ABORTED, "recorder: no more");
  else
    EXPECT_ERROR(training->run_step({toy_batch(2, 1)}), WEFT_UNAVAILABLE, "peer closed");
}

WEFT_RANKS_TEST(FailingStrategyOnOneRank, EndsTheUpdateOfAll, 2) {
  Recorder recorder;
  const auto training = make_training(world, make_toy(), recorder);
  optim::Optimizer optimizer = optim::SGD({{"wte.weight"}}, {.lr = 0.1});
  optimizer.shared().attach(shared_bindings(training));
  training->run_step({toy_batch(2, 1)});
  if (world.rank() == 1) {
    recorder.publish = kFails;
    EXPECT_ERROR(optimizer.step(), WEFT_ABORTED, "recorder: no more");
  } else {
    EXPECT_ERROR(optimizer.step(), WEFT_UNAVAILABLE, "peer closed");
  }
}

WEFT_RANKS_TEST(LyingStrategy, IsRefusedWhereItsMeshesDiffer, 2) {
  Recorder recorder;
  recorder.describe_mesh = [&](weft_mesh* mesh) {
    if (world.rank() == 1) std::swap(mesh->size[axis::kData], mesh->size[axis::kReplica]);
  };
  EXPECT_ERROR(make_training(world, make_toy(), recorder), WEFT_INTERNAL, "recorder", "mesh is 2 x 1 x 1",
               "on rank 0, but 1 x 2 x 1", "on rank 1");
}

TEST(LyingStrategy, IsRefusedWhereItsScheduleLeavesSomethingOut) {
  struct Mistake {
    std::string left_out;
    const char* what;
    const char* where;
  };
  const Mistake mistakes[] = {{"micro-batch", "0 forwards", "5 units of micro-batch 1 of 2"},
                              {"unit", "4 forwards", "5 units of micro-batch 0 of 2"},
                              {"backward", "without backward", "of micro-batch 0 of 2"}};
  for (const auto& [left_out, what, where] : mistakes) {
    Recorder recorder;
    recorder.run_step = [&, l = left_out](weft_step* step) { drive(recorder, step, l); };
    const auto training = make_training(launch(), make_toy(), recorder);
    EXPECT_ERROR(training->run_step({toy_batch(2, 1), toy_batch(2, 2)}), WEFT_INTERNAL, "recorder: run_step",
                 what, where);
  }
  Recorder recorder;
  recorder.run_step = [&](weft_step* step) { drive(recorder, step, "finish"); };
  const auto training = make_training(launch(), make_toy(), recorder);
  EXPECT_ERROR(training->run_forward({toy_batch(2, 1)}), WEFT_INTERNAL, "run_step",
               "finish of micro-batch 0 of 1");
}

// Publishes every parameter whole except one, whose record `change` alters, or leaves out if it returns
// false.
void publish_with(Recorder& recorder, weft_shard_sink* sink, const std::function<bool(weft_shard&)>& change) {
  for (const auto& param : recorder.training->params()) {
    const at::Tensor value = param->tensor.detach().view(-1);
    weft_shard shard{sizeof(shard), param.get(), 0, value.numel(), handle_of(value), nullptr, 0, 0, nullptr};
    at::Tensor part = value;
    if (param->name == "blocks.1.linear.weight") {
      if (!change(shard)) continue;
      part = value.narrow(0, shard.begin, shard.count);
      shard.value = handle_of(part);
    }
    call([&](weft_error* e) { return publish_services().shard(sink, &shard, e); });
  }
}

WEFT_RANKS_TEST(LyingStrategy, IsRefusedWhereItDoesNotPublishEachElementOnce, 1, 2) {
  const auto expect_refusal = [&](const std::function<bool(weft_shard&)>& change, int64_t counted) {
    Recorder recorder;
    recorder.publish = [&](weft_shard_sink* sink) { publish_with(recorder, sink, change); };
    EXPECT_ERROR(make_training(world, make_toy(), recorder), WEFT_INTERNAL,
                 fmt::format("of blocks.1.linear.weight count {} elements", counted), "has 36");
  };
  expect_refusal([](weft_shard&) { return false; }, 0);
  expect_refusal([](weft_shard& shard) { return shard.count = 35, true; }, 35);
  if (world.size() == 1) return;
  // One is whole on both ranks but published as split; the other is split but published as whole.
  expect_refusal([](weft_shard& shard) { return shard.partition_axes = 1u << axis::kData, true; }, 72);
  expect_refusal(
      [&](weft_shard& shard) {
        shard.begin = world.rank() * 18;
        shard.count = 18;
        return true;
      },
      18);
  // The first half on one rank, and once more on the other.
  Recorder recorder;
  recorder.publish = [&](weft_shard_sink* sink) {
    publish_with(recorder, sink, [](weft_shard& shard) {
      shard.count = 18;
      shard.partition_axes = 1u << axis::kData;
      return true;
    });
  };
  EXPECT_ERROR(make_training(world, make_toy(), recorder), WEFT_INTERNAL, "blocks.1.linear.weight",
               "36 elements twice");
}

TEST(LyingStrategy, IsRefusedWhenItsRangesChange) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  recorder.publish = [&](weft_shard_sink* sink) {
    publish_with(recorder, sink, [](weft_shard& shard) { return shard.count = 35, true; });
  };
  EXPECT_ERROR(training->bindings().publish(WEFT_REASON_CHECK), WEFT_INTERNAL, "recorder", "ranges are",
               "not change");
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
  EXPECT_ERROR(training->run_step({ignored}), WEFT_INVALID_ARGUMENT, "label of \"loss\"");
  EXPECT_ERROR(training->run_forward({wrong}), WEFT_INVALID_ARGUMENT, "ids");
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
  EXPECT_ERROR(training->run_step({toy_batch(4, 1)}), WEFT_FAILED_PRECONDITION, "none: ", "earlier step");
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
  EXPECT_ERROR(loss.backward(), WEFT_FAILED_PRECONDITION, "has ended");
  // The tensors of the model have neither hooks nor gradients any more.
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
  EXPECT_ERROR(training->run_forward({toy_batch(2, 1)}), WEFT_DATA_LOSS, "recorder: gone");
  EXPECT_ERROR(training->run_forward({toy_batch(2, 1)}), WEFT_FAILED_PRECONDITION,
               "step failed (recorder: gone)");
}

}  // namespace

}  // namespace weft::test
