// Which hooks a strategy gets, and in which order, for any autograd graph.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <optional>
#include <set>

#include "optim/optimizer_state.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"
#include "train/training/recorder.hpp"

namespace weft::test {

namespace {

using Names = std::vector<std::string>;

const Names kUnits = {"embed", "blocks.0", "blocks.1", "blocks.2", "head"};

Names forward_events() {
  Names events;
  for (const std::string& unit : kUnits) {
    events.push_back("before_forward " + unit);
    events.push_back("after_forward " + unit);
  }
  return events;
}

Names joined(std::initializer_list<Names> parts) {
  Names all;
  for (const Names& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Names backward_of(const std::string& which) {
  return joined({{"begin_backward " + which}, backward_events(kUnits), {"end_backward " + which}});
}

size_t place(const Names& events, const std::string& event) {
  const auto found = std::find(events.begin(), events.end(), event);
  EXPECT_NE(found, events.end()) << event;
  return static_cast<size_t>(found - events.begin());
}

// gradient_ready comes after before_backward of the last unit that uses the parameter, and before
// after_backward of the first.
void expect_gradients_inside_their_units(const Recorder& recorder) {
  for (const auto& param : recorder.training->params()) {
    const std::string ready = "gradient_ready " + param->name;
    const auto times = std::count(recorder.events.begin(), recorder.events.end(), ready);
    EXPECT_LE(times, 1) << param->name;
    if (times == 0) continue;
    const auto unit = [&](uint32_t index) { return kUnits.at(index); };
    EXPECT_GT(place(recorder.events, ready),
              place(recorder.events, "before_backward " + unit(param->units.back())));
    EXPECT_LT(place(recorder.events, ready),
              place(recorder.events, "after_backward " + unit(param->units.front())));
  }
}

void expect_same_gradients(Training& actual, Training& expected, double tolerance = kGradientFp32) {
  const auto reference = gradients_of(expected);
  for (const auto& [name, gradient] : gradients_of(actual)) {
    if (!reference.at(name).defined()) {
      EXPECT_FALSE(gradient.defined()) << name;
      continue;
    }
    EXPECT_TRUE(is_near(gradient, reference.at(name), tolerance)) << name;
  }
}

TEST(Hooks, ComeOncePerUnitAndInStrictReverseOrder) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  recorder.events.clear();
  training->run_step({toy_batch(4, 1)});
  EXPECT_EQ(recorder.without_gradients(), joined({forward_events(), backward_of("0 of 1 synchronised")}));
  EXPECT_EQ(recorder.of("gradient_ready").size(), training->bindings().params().size());
  expect_gradients_inside_their_units(recorder);
}

// Returns the nodes of boundaries that a backward from `tensor` reaches.
size_t boundary_nodes(const at::Tensor& tensor) {
  std::set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open = {tensor.grad_fn().get()};
  size_t count = 0;
  while (!open.empty()) {
    const torch::autograd::Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    count += node->name() == "UnitBoundary" ? 1 : 0;
    for (const torch::autograd::Edge& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return count;
}

TEST(Hooks, NeedNoNodeBetweenTwoUnits) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  const State outputs = training->forward(toy_batch(4, 1));
  EXPECT_EQ(boundary_nodes(outputs.begin()->second), 0u);
}

TEST(Hooks, TellEveryMicroBatchAndWhichOneSynchronises) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy("", at::kDouble), recorder);
  const Batch batch = toy_batch(6, 2);
  recorder.events.clear();
  training->run_step({part_of(batch, 0, 1), part_of(batch, 1, 4), part_of(batch, 4, 6)});
  EXPECT_EQ(recorder.without_gradients(),
            joined({forward_events(), backward_of("0 of 3"), forward_events(), backward_of("1 of 3"),
                    forward_events(), backward_of("2 of 3 synchronised")}));
  const auto whole = make_single(make_toy("", at::kDouble));
  whole->run_step({batch});
  expect_same_gradients(*training, *whole, kGradientFp64);
}

TEST(Hooks, AreNotSynchronisedUnderNoSync) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  training->set_synchronise(false);
  training->run_step({toy_batch(2, 3), toy_batch(2, 4)});
  EXPECT_EQ(recorder.of("begin_backward"), (Names{"begin_backward 0 of 2", "begin_backward 1 of 2"}));
}

// Runs the units before `half`, frees their state, and runs the others on a new one at the same address, as
// an allocator may give it.
void run_in_two_pieces(weft_step* step, const std::vector<std::unique_ptr<weft_unit>>& units, size_t half) {
  const weft_step_services& services = the_step_services();
  const auto run = [&](weft_state* state, size_t begin, size_t end) {
    for (size_t u = begin; u < end; ++u)
      call([&](weft_error* e) { return services.forward(step, 0, units[u].get(), state, e); });
  };
  std::optional<weft_state> state;
  const auto put = [&](weft_state* made) {
    state.emplace(std::move(*made));
    services.state_destroy(made);
  };
  weft_state* made = nullptr;
  call([&](weft_error* e) { return services.input(step, 0, &made, e); });
  put(made);
  run(&*state, 0, half);
  weft_state left{state->state};
  state.reset();
  call([&](weft_error* e) { return services.boundary(step, 0, units[half].get(), &made, e); });
  put(made);
  const at::Tensor entered = state->state.at("x");
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : state->state) tensor.copy_(left.state.at(name));
  }
  run(&*state, half, units.size());
  call([&](weft_error* e) { return services.finish(step, 0, &*state, e); });
  call([&](weft_error* e) { return services.backward(step, 0, nullptr, nullptr, e); });
  weft_state gradients{State{{"x", entered.grad()}}};
  call([&](weft_error* e) { return services.backward(step, 0, &left, &gradients, e); });
}

TEST(Hooks, ComeForEachPieceOfAScheduleThatFreesItsStates) {
  Recorder recorder;
  recorder.run_step = [&](weft_step* step) { run_in_two_pieces(step, recorder.training->units(), 2); };
  const auto training = make_training(launch(), make_toy("", at::kDouble), recorder);
  training->run_step({toy_batch(4, 9)});
  const Names events = recorder.without_gradients();
  const auto begin = std::find(events.begin(), events.end(), "begin_backward 0 of 1");
  EXPECT_EQ(Names(begin, events.end()), joined({{"begin_backward 0 of 1"},
                                                backward_events({"blocks.1", "blocks.2", "head"}),
                                                {"end_backward 0 of 1"},
                                                {"begin_backward 0 of 1 synchronised"},
                                                backward_events({"embed", "blocks.0"}),
                                                {"end_backward 0 of 1 synchronised"}}));
  const auto whole = make_single(make_toy("", at::kDouble));
  whole->run_step({toy_batch(4, 9)});
  expect_same_gradients(*training, *whole, kGradientFp64);
}

TEST(Hooks, GiveATiedParameterToItsFirstUnitAndCompleteThere) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  weft_param* const tied = training->bindings().find_param("head.weight");
  ASSERT_EQ(tied, training->bindings().find_param("wte.weight"));
  weft_param_info info{};
  info.struct_size = sizeof(info);
  call([&](weft_error* e) { return model_services().param_info(tied, &info, e); });
  EXPECT_EQ(info.first_unit, 0);
  EXPECT_EQ(info.num_units, 2);
  EXPECT_TRUE(model_services().param_used_by(tied, model_services().unit(recorder.training, 4)));
  EXPECT_FALSE(model_services().param_used_by(tied, model_services().unit(recorder.training, 1)));
  at::Tensor at_owner, at_head;
  recorder.on_event = [&](const std::string& event) {
    if (event == "after_backward head") at_head = tied->tensor.grad();
    if (event == "after_backward embed") at_owner = tied->tensor.grad().clone();
  };
  training->run_step({toy_batch(4, 5)});
  EXPECT_FALSE(at_head.defined());
  EXPECT_TRUE(at_owner.equal(tied->tensor.grad()));
}

TEST(Hooks, FindTheGradientsOfAUnitCompleteAfterIt) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  std::map<std::string, at::Tensor> seen;
  recorder.on_event = [&](const std::string& event) {
    for (const auto& param : training->bindings().params())
      if (event == "after_backward " + kUnits.at(param->units.front()))
        seen[param->name] = param->tensor.grad().clone();
  };
  training->run_step({toy_batch(4, 6)});
  for (const auto& param : training->bindings().params())
    EXPECT_TRUE(seen.at(param->name).equal(param->tensor.grad())) << param->name;
}

TEST(Hooks, AreNotReadyForWhatWasNotUsed) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  training->run_step({toy_batch(4, 7, /*gated=*/false)});
  EXPECT_EQ(recorder.of("gradient_ready blocks.0.gate"), Names());
  EXPECT_FALSE(gradients_of(*training).at("blocks.0.gate").defined());
  training->run_step({toy_batch(4, 7)});
  EXPECT_EQ(recorder.of("gradient_ready blocks.0.gate").size(), 1);
}

TEST(Hooks, ComeForFrozenUnitsToo) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy("\"frozen\": 2"), recorder);
  recorder.events.clear();
  training->run_step({toy_batch(4, 8)});
  EXPECT_EQ(recorder.without_gradients(), joined({forward_events(), backward_of("0 of 1 synchronised")}));
  EXPECT_EQ(recorder.of("gradient_ready wte.weight"), Names());
  EXPECT_EQ(recorder.of("gradient_ready blocks.0"), Names());
  EXPECT_EQ(recorder.of("gradient_ready blocks.1").size(), 4);
  EXPECT_FALSE(training->bindings().find_param("wte.weight")->tensor.requires_grad());
}

// The sequences are the same on every rank.
void expect_same_sequence(World& world, const Recorder& recorder) {
  std::string text;
  for (const std::string& event : recorder.without_gradients()) text += event + "\n";
  const Names all = world.communicator().gather_text(text);
  for (const std::string& other : all) EXPECT_EQ(other, all[0]);
}

WEFT_RANKS_TEST(Hooks, AreTheSameOnEveryRankWhateverTheGraph, 2, 3) {
  const bool odd = world.rank() == 1;
  for (const char* field : {"skip", "cut"}) {
    Recorder recorder;
    const auto training = make_training(world, make_toy(), recorder);
    Batch batch = with(toy_batch(3, 10 + world.rank(), /*gated=*/!odd), field, odd);
    training->run_step({batch});
    training->run_step({part_of(batch, 0, 1), part_of(batch, 1, 3)});
    EXPECT_EQ(recorder.without_gradients(3),
              joined({forward_events(), backward_of("0 of 1 synchronised"), forward_events(),
                      backward_of("0 of 2"), forward_events(), backward_of("1 of 2 synchronised")}));
    EXPECT_EQ(recorder.of("gradient_ready blocks.0.gate").size(), odd ? 0 : 3) << field;
    expect_same_sequence(world, recorder);
  }
}

TEST(Hooks, ReachUnitsThatTheGraphDoesNot) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  recorder.events.clear();
  training->run_step({with(toy_batch(4, 12), "cut", 1)});  // no gradient flows back beyond blocks.1
  EXPECT_EQ(recorder.without_gradients(), joined({forward_events(), backward_of("0 of 1 synchronised")}));
  EXPECT_FALSE(gradients_of(*training).at("blocks.0.linear.weight").defined());
  EXPECT_TRUE(gradients_of(*training).at("blocks.1.linear.weight").defined());
}

TEST(Hooks, PassFieldsThatAreNoNumbers) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  const auto plain = make_single(make_toy());
  training->run_step({toy_batch(4, 13)});
  plain->run_step({toy_batch(4, 13)});
  expect_same_gradients(*training, *plain, 0);
}

TEST(Hooks, AreThoseOfForwardAloneInEvaluation) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy(), recorder);
  recorder.events.clear();
  const Training::Forward forward = training->run_forward({toy_batch(4, 14)});
  EXPECT_EQ(recorder.events, forward_events());
  EXPECT_FALSE(forward.outputs.at("logits").requires_grad());
  EXPECT_EQ(forward.terms.size(), 1);
}

TEST(OwnLoop, MayGoForwardSeveralTimesAndEvaluateBetween) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy("", at::kDouble), recorder);
  const auto reference = make_single(make_toy("", at::kDouble));
  const auto loss_of = [](Training& t, int64_t seed) {
    return t.forward(toy_batch(3, seed)).at("logits").square().mean();
  };
  recorder.events.clear();
  const at::Tensor first = loss_of(*training, 20), second = loss_of(*training, 21);
  training->run_forward({toy_batch(2, 22)});
  const at::Tensor forgotten = loss_of(*training, 23);
  training->backward(first);
  training->run_forward({toy_batch(2, 22)});
  training->backward(second);
  EXPECT_EQ(recorder.without_gradients(), joined({forward_events(), forward_events(), forward_events(),
                                                  forward_events(), backward_of("0 of 0 synchronised"),
                                                  forward_events(), backward_of("0 of 0 synchronised")}));
  for (const int64_t seed : {20, 21}) reference->backward(loss_of(*reference, seed));
  expect_same_gradients(*training, *reference, kGradientFp64);
}

TEST(OwnLoop, TakesOneBackwardThroughSeveralForwards) {
  Recorder recorder;
  const auto training = make_training(launch(), make_toy("", at::kDouble), recorder);
  const auto reference = make_single(make_toy("", at::kDouble));
  const auto loss_of = [](Training& t, int64_t seed) {
    return t.forward(toy_batch(3, seed)).at("logits").square().mean();
  };
  const at::Tensor sum = loss_of(*training, 24) + loss_of(*training, 25);
  recorder.events.clear();
  training->backward(sum);
  EXPECT_EQ(recorder.without_gradients(), joined({{"begin_backward 0 of 0 synchronised"},
                                                  backward_events(kUnits),
                                                  backward_events(kUnits),
                                                  {"end_backward 0 of 0 synchronised"}}));
  for (const int64_t seed : {24, 25}) reference->backward(loss_of(*reference, seed));
  expect_same_gradients(*training, *reference, kGradientFp64);
}

TEST(OwnLoop, TakesACriterionOfTheCallers) {
  const auto training = make_single(make_toy("", at::kDouble)),
             reference = make_single(make_toy("", at::kDouble));
  const auto criterion = [](const State& outputs, const Batch&) {
    return outputs.at("logits").square().mean();
  };
  const Batch batch = toy_batch(4, 26);
  const Training::StepLoss loss = training->run_step({part_of(batch, 0, 2), part_of(batch, 2, 4)}, criterion);
  const at::Tensor whole = criterion(reference->forward(batch), batch);
  reference->backward(whole);
  EXPECT_NEAR(loss.total(), whole.item<double>(), 1e-12);
  expect_same_gradients(*training, *reference, kGradientFp64);
}

TEST(OwnLoop, RefusesALossThatIsNotOneNumber) {
  const auto step_of = [](const Training::Criterion& criterion) {
    make_single(make_toy())->run_step({toy_batch(4, 26)}, criterion);
  };
  EXPECT_ERROR(step_of([](const State& outputs, const Batch&) { return outputs.at("logits").square(); }),
               WEFT_INVALID_ARGUMENT, "a tensor [4, 5, ", "one element", "reduce it");
  EXPECT_ERROR(step_of([](const State&, const Batch&) { return at::Tensor(); }), WEFT_INVALID_ARGUMENT,
               "no tensor");
  EXPECT_ERROR(step_of([](const State& outputs, const Batch&) { return outputs.at("logits").argmax(); }),
               WEFT_INVALID_ARGUMENT, "type Long");
  EXPECT_ERROR(
      step_of([](const State& outputs, const Batch&) { return outputs.at("logits").detach().mean(); }),
      WEFT_INVALID_ARGUMENT, "a gradient", "be detached");
}

TEST(OwnLoop, CountsNothingOfAStandInBatch) {
  const auto training = make_single(make_toy()), reference = make_single(make_toy());
  Batch empty = toy_batch(1, 27);
  empty.empty = true;
  empty.set("labels", at::full({1, 5}, -100, at::kLong));
  const auto mean = [](const State& outputs, const Batch& batch) {
    return at::nll_loss_nd(outputs.at("logits").log_softmax(-1).movedim(-1, 1), batch.at("labels"));
  };
  ASSERT_TRUE(mean(reference->forward(empty), empty).isnan().item<bool>());
  training->run_step({toy_batch(3, 28), empty}, mean);
  reference->run_step({toy_batch(3, 28)}, mean);
  for (const auto& [name, gradient] : gradients_of(*training))
    EXPECT_TRUE(is_near(gradient, gradients_of(*reference).at(name), kGradientFp32)) << name;
}

}  // namespace

}  // namespace weft::test
