#include "plugins/support/parity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "opening/model_state.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"
#include "training/part.hpp"

namespace weft::test {

namespace {

Tensors gathered(const Job& job, at::Tensor Shard::*part) {
  Bindings& bindings = job.model.shared().bindings();
  Tensors whole;
  for (const auto& param : bindings.params()) whole[param->name] = at::zeros(param->shape, at::kDouble);
  for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) {
    if (!(shard.*part).defined()) continue;
    const at::Tensor& all = whole.at(shard.param->name);
    for_each_box(shard.param->cut, shard.begin + shard.counted_begin, shard.counted_count,
                 (shard.*part).narrow(0, shard.counted_begin, shard.counted_count),
                 [&](const Box& box, const at::Tensor& values) {
                   view_of(all, Box::whole(shard.param->shape), box).copy_(values);
                 });
  }
  if (bindings.world().size() > 1)
    for (auto& [name, tensor] : whole)
      bindings.world().communicator().all_reduce(tensor, ReduceOp::kSum, true).wait();
  return whole;
}

JobOptions without_strategy(JobOptions options) {
  options.strategy = "none";
  options.options = "{}";
  return options;
}

// Gives the job the criterion of its trial, if that has one. The host averages what a criterion returns over
// data-parallel ranks, whose parts of the global batch differ in size.
Job with_criterion(Job job, const Trial& trial) {
  if (!trial.criterion) return job;
  const Batch batch = trial.batch(0);
  const auto ranks = static_cast<double>(job.model.shared().bindings().mesh().data_size());
  const double weight =
      ranks * static_cast<double>(own_part(batch, job).samples()) / static_cast<double>(batch.samples());
  job.criterion = [weight, mean = trial.criterion](const State& outputs, const Batch& micro_batch) {
    return mean(outputs, micro_batch) * weight;
  };
  return job;
}

Job boost_sgd(const World& world, const JobOptions& options, const Trial& trial) {
  return with_criterion(boost(world, trial.model(options), options), trial);
}

Job boost_adamw(const World& world, const JobOptions& options, const Trial& trial) {
  const Model model = trial.model(options);
  return with_criterion(
      boost(world, model, options,
            optim::AdamW(model.parameters(), {.lr = 1e-2, .eps = 1e-4, .weight_decay = 0.1})),
      trial);
}

// A rank that ends takes its connections with it, also those that a slower one still needs for its last
// gather.
void end_together(const World& world) {
  world.communicator().barrier();
}

// Returns one of the numbers of ranks, or all in a full run.
std::vector<int> drawn_ranks(const char* what, const JobOptions& options, const std::vector<int>& ranks) {
  return slice(fmt::format("{} {} {} {}", what, options.strategy, options.options, options.precision), ranks,
               1);
}

// Returns a few of the update rules, or all in a full run.
std::vector<std::string> drawn_rules(const JobOptions& options) {
  return slice(fmt::format("rules {} {} {}", options.strategy, options.options, options.precision),
               optim::rule_names(), 4);
}

}  // namespace

Batch own_part(const Batch& batch, int64_t rank, int64_t ranks) {
  const int64_t samples = batch.begin()->second.size(0);
  const int64_t begin = samples * rank / ranks, end = samples * (rank + 1) / ranks;
  if (begin != end) return part_of(batch, begin, end);
  Batch none = part_of(batch, 0, 1);
  none.empty = true;
  return none;
}

Batch own_part(const Batch& batch, const World& world) {
  return own_part(batch, world.rank(), world.size());
}

Batch own_part(const Batch& batch, const Job& job) {
  const Mesh& mesh = job.model.shared().bindings().mesh();
  return own_part(batch, mesh.data_rank(), mesh.data_size());
}

Model tiny_gpt2(const TinyGpt2& options) {
  const TemporaryFolder folder;
  folder.file("config.json",
              fmt::format(R"({{"model_type": "gpt2", "vocab_size": 23, "n_positions": {},
      "n_embd": {}, "n_head": {}, "n_layer": {}, "resid_pdrop": {}, "embd_pdrop": {}, "attn_pdrop": {},
      "initializer_range": {}{}}})",
                          options.positions, options.width, options.heads, options.layers, options.dropout,
                          options.dropout, options.attention_dropout.value_or(options.dropout),
                          options.deviation, options.more));
  return Model::open(folder.path() + "/config.json", options.architecture, options.precision);
}

Batch gpt2_batch(int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  Batch batch = {{"input_ids", at::randint(23, {samples, 7}, at::kLong)},
                 {"labels", at::randint(23, {samples, 7}, at::kLong)}};
  batch.at("labels").narrow(0, samples / 2, samples - samples / 2).narrow(1, 2, 5).fill_(-100);
  return batch;
}

Tensors published_values(const Job& job) {
  return gathered(job, &Shard::value);
}
Tensors published_gradients(const Job& job) {
  Tensors gradients = gathered(job, &Shard::gradient);
  for (auto& [name, gradient] : gradients) gradient.div_(job.model.shared().bindings().loss_scale());
  return gradients;
}

namespace {

double largest_of(const Tensors& tensors) {
  double largest = 0;
  for (const auto& [name, tensor] : tensors) largest = std::max(largest, tensor.abs().max().item<double>());
  return largest;
}

// Compares the tensors of `noise` with the largest value of all tensors, and the others each with its own.
void expect_near_but_noise(Tensors found, Tensors expected, const std::vector<std::string>& noise,
                           double tolerance) {
  const double largest = largest_of(expected);
  for (const std::string& name : noise) {
    EXPECT_LE((found.at(name) - expected.at(name)).abs().max().item<double>(), tolerance * largest) << name;
    found.erase(name);
    expected.erase(name);
  }
  expect_near(found, expected, tolerance);
}

}  // namespace

TrialOutcome outcome_of(const World& world, const JobOptions& options, const Trial& trial) {
  Job job = boost_sgd(world, options, trial);
  TrialOutcome outcome;
  outcome.loss = job.accumulate_gradients(own_part(trial.batch(0), job));
  outcome.gradients = published_gradients(job);
  if (options.max_grad_norm > 0) outcome.norm = job.optimizer.clip_grad_by_norm(options.max_grad_norm);
  job.optimizer.step();
  outcome.values = published_values(job);
  job.optimizer.zero_grad();
  outcome.next = job.train_step(own_part(trial.batch(1), job)).loss;
  return outcome;
}

void expect_outcome(const TrialOutcome& found, const TrialOutcome& expected, const Trial& trial,
                    double tolerance) {
  EXPECT_NEAR(found.loss, expected.loss, tolerance * std::abs(expected.loss));
  EXPECT_NEAR(found.norm, expected.norm, tolerance * expected.norm);
  expect_near_but_noise(found.gradients, expected.gradients, trial.without_gradient, tolerance);
  expect_near_but_noise(found.values, expected.values, trial.without_gradient, tolerance);
  EXPECT_NEAR(found.next, expected.next, tolerance * std::abs(expected.next));
}

double tolerance_of(const Trial& trial, const std::string& precision) {
  if (trial.tolerance > 0) return trial.tolerance;
  return precision == "fp64" ? kGradientFp64 : kGradientFp32;
}

std::string describe(const Case& one) {
  const JobOptions& options = one.options;
  return fmt::format("{}{} {} {}, recompute {}, accumulate {}, clipped to {}",
                     one.name.empty() ? "" : one.name + ": ", options.strategy, options.options,
                     options.precision, options.recompute, options.accumulate, options.max_grad_norm);
}

namespace {

void expect_gradients_in_a_launch(const std::vector<Case>& cases, int ranks) {
  std::vector<TrialOutcome> alone;
  std::string texts;
  for (const Case& one : cases) {
    alone.push_back(outcome_of(one_rank(), without_strategy(one.options), one.trial));
    texts += "\n  " + describe(one);
  }
  // Here, because a rank that hangs or crashes tells of no case.
  SCOPED_TRACE(fmt::format("on {} ranks:{}", ranks, texts));
  on_ranks({ranks}, [&](World& world) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const JobOptions& options = cases[i].options;
      const Trial& trial = cases[i].trial;
      SCOPED_TRACE(describe(cases[i]));
      expect_outcome(outcome_of(world, options, trial), alone[i], trial,
                     tolerance_of(trial, options.precision));
    }
    end_together(world);
  });
}

}  // namespace

void expect_gradients_of_one_rank(const std::vector<Case>& cases, int ranks) {
  constexpr std::ptrdiff_t kLaunch = 8;
  for (auto begin = cases.begin(); begin != cases.end();) {
    const auto end = begin + std::min(kLaunch, cases.end() - begin);
    expect_gradients_in_a_launch(std::vector<Case>(begin, end), ranks);
    begin = end;
  }
}

void expect_gradients_of_one_rank(const JobOptions& options, const std::vector<int>& ranks,
                                  const Trial& trial) {
  for (const int size : drawn_ranks("gradients", options, ranks))
    expect_gradients_of_one_rank({{options, trial}}, size);
}

void expect_half_gradients_of_one_rank(const JobOptions& options, double rest, const std::vector<int>& ranks,
                                       const Trial& trial) {
  const JobOptions plain = without_strategy(options);
  Job alone = boost_sgd(one_rank(), plain, trial);
  alone.accumulate_gradients(trial.batch(0));
  const Tensors expected = published_gradients(alone);
  on_ranks(drawn_ranks("half", options, ranks), [&](World& world) {
    Job job = boost_sgd(world, options, trial);
    job.accumulate_gradients(own_part(trial.batch(0), job));
    for (const auto& [name, gradient] : published_gradients(job)) {
      const at::Tensor reference = expected.at(name).flatten(), difference = gradient.flatten() - reference;
      const double square = reference.dot(reference).item<double>();
      EXPECT_LT(std::abs(difference.dot(reference).item<double>()) / square, 3e-3) << name;
      EXPECT_LT(std::sqrt(difference.dot(difference).item<double>() / square), rest) << name;
    }
    end_together(world);
  });
}

void expect_steps_of_one_rank(const JobOptions& options, const std::vector<int>& ranks, const Trial& trial) {
  constexpr int64_t kSteps = 20;
  const JobOptions plain = without_strategy(options);
  Job alone = boost_adamw(one_rank(), plain, trial);
  const Tensors initial = published_values(alone);
  std::vector<StepResult> expected;
  for (int64_t step = 0; step < kSteps; ++step) expected.push_back(alone.train_step(trial.batch(step)));
  const auto updates = [&](const Job& job) {
    Tensors values = published_values(job);
    for (auto& [name, value] : values) value = value - initial.at(name);
    return values;
  };
  const Tensors expected_updates = updates(alone);
  on_ranks(drawn_ranks("steps", options, ranks), [&](World& world) {
    Job job = boost_adamw(world, options, trial);
    expect_equal(published_values(job), initial);
    for (int64_t step = 0; step < kSteps; ++step) {
      const StepResult result = job.train_step(own_part(trial.batch(step), job));
      EXPECT_NEAR(result.loss, expected[step].loss, 1e-5) << "step " << step;
      ASSERT_EQ(result.grad_norm.has_value(), expected[step].grad_norm.has_value());
      if (result.grad_norm) {
        EXPECT_NEAR(*result.grad_norm, *expected[step].grad_norm, 1e-4 * *expected[step].grad_norm);
      }
    }
    expect_near(updates(job), expected_updates, 5e-4);
  });
}

namespace {

// Two groups, with options that use every state; `eps` keeps what is zero in exact arithmetic from becoming
// whole steps.
optim::Optimizer make_optimizer(const std::string& rule, const Model& model) {
  optim::Hyper options = {{"lr", 1e-2}, {"weight_decay", 0.1}};
  const optim::Hyper known = optim::rule(rule)->defaults();
  if (known.contains("momentum")) options["momentum"] = 0.9;
  if (known.contains("eps")) options["eps"] = 1e-4;
  if (known.contains("eeta")) options["eeta"] = 0.1;
  if (rule == "adafactor") options["beta1"] = 0.9;
  std::vector<optim::Group> groups(2, {{}, options});
  groups[1].options["lr"] = 2e-2;
  groups[1].options["weight_decay"] = 0;
  size_t next = 0;
  for (const std::string& name : model.parameters().names)
    groups[next++ % 2].parameters.names.push_back(name);
  return optim::Optimizer(rule, groups);
}

Tensors values_after_steps(const World& world, const JobOptions& options, const std::string& rule) {
  const Model model = toy(options, "\"gated\": false");
  Job job = boost(world, model, options, make_optimizer(rule, model));
  for (int64_t step = 0; step < 4; ++step) job.train_step(own_part(toy_batch(7, step), job));
  return published_values(job);
}

}  // namespace

void expect_rules_of_one_rank(JobOptions options, const std::vector<int>& ranks) {
  options.precision = "fp64";
  options.max_grad_norm = 0.05;
  const JobOptions plain = without_strategy(options);
  std::map<std::string, Tensors> expected;
  for (const std::string& rule : drawn_rules(options))
    expected[rule] = values_after_steps(one_rank(), plain, rule);
  on_ranks(drawn_ranks("rules", options, ranks), [&](World& world) {
    for (const auto& [rule, values] : expected) {
      SCOPED_TRACE(rule);
      expect_near(values_after_steps(world, options, rule), values, 1e-9);
    }
  });
}

void expect_rules_without_masters(const JobOptions& without, const JobOptions& with_masters,
                                  const std::vector<int>& ranks) {
  on_ranks(drawn_ranks("rules", without, ranks), [&](World& world) {
    for (const std::string& rule : drawn_rules(without)) {
      SCOPED_TRACE(rule);
      const auto make = [&](const JobOptions& options) {
        const Model model = toy(options, "\"gated\": false");
        return boost(world, model, options, make_optimizer(rule, model));
      };
      Job rounded = make(with_masters), job = make(without);
      for (int64_t step = 0; step < 4; ++step) {
        for (const Shard& shard : rounded.model.shared().bindings().publish(WEFT_REASON_CHECK)) {
          ASSERT_EQ(shard.value.scalar_type(), at::kFloat);
          at::Tensor(shard.value).copy_(shard.value.to(precision_dtype(without.precision)));
        }
        for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK))
          ASSERT_EQ(shard.value.scalar_type(), precision_dtype(without.precision));
        expect_equal(published_values(job), published_values(rounded));
        const Batch batch = own_part(toy_batch(7, step), world);
        EXPECT_EQ(job.train_step(batch).loss, rounded.train_step(batch).loss);
      }
    }
    end_together(world);
  });
}

}  // namespace weft::test
