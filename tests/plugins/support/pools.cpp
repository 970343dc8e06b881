#include "plugins/support/pools.hpp"

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using memory::Pool;

double used(Pool pool) {
  return static_cast<double>(memory::pool_use(pool).used);
}
double received(Pool pool) {
  return static_cast<double>(memory::pool_use(pool).received);
}

struct Run {
  Tensors gradients, values;
  std::vector<double> losses;
};

Run train(const World& world, Model model, const JobOptions& options, int64_t steps,
          const std::function<Batch(int64_t)>& batch) {
  Job job = boost(world, std::move(model), options, "adamw");
  Run run;
  job.accumulate_gradients(own_part(batch(0), job));
  run.gradients = published_gradients(job);
  job.optimizer.zero_grad();
  for (int64_t step = 0; step < steps; ++step)
    run.losses.push_back(job.train_step(own_part(batch(step), job)).loss);
  run.values = published_values(job);
  return run;
}

void expect_same(const Run& actual, const Run& expected) {
  expect_equal(actual.gradients, expected.gradients);
  EXPECT_EQ(actual.losses, expected.losses);
  expect_equal(actual.values, expected.values);
}

}  // namespace

PlacedBytes placed_bytes(const World& world, const JobOptions& options) {
  return placed_bytes(world, toy(options, kEvenToy), toy_batch(world.size(), 1, false), options);
}

PlacedBytes placed_bytes(const World& world, Model model, const Batch& batch, const JobOptions& options) {
  const double accelerator = used(Pool::kAccelerator), host = used(Pool::kHost);
  Job job = boost(world, std::move(model), options, "adamw");
  job.train_step(own_part(batch, job));
  PlacedBytes bytes;
  for (const auto& param : job.model.shared().bindings().params())
    bytes.elements += static_cast<double>(param->count());
  memory::reset_peak(Pool::kAccelerator);
  const double up = received(Pool::kAccelerator), down = received(Pool::kHost);
  job.accumulate_gradients(own_part(batch, job));
  job.optimizer.step();
  bytes.brought = received(Pool::kAccelerator) - up;
  bytes.taken = received(Pool::kHost) - down;
  bytes.most = static_cast<double>(memory::pool_use(Pool::kAccelerator).peak) - accelerator;
  bytes.accelerator = used(Pool::kAccelerator) - accelerator;
  bytes.host = used(Pool::kHost) - host;
  return bytes;
}

void expect_same_bits(const World& world, const JobOptions& actual, const JobOptions& expected,
                      int64_t steps) {
  const auto run = [&](const JobOptions& options) {
    return train(world, tiny_gpt2(TinyGpt2{.precision = options.precision, .heads = 4}), options, steps,
                 [](int64_t step) { return gpt2_batch(7, step); });
  };
  expect_same(run(actual), run(expected));
}

void expect_same_bits(const JobOptions& actual, const JobOptions& expected, const std::vector<int>& ranks) {
  on_ranks(ranks, [&](World& world) { expect_same_bits(world, actual, expected); });
}

void expect_only_fits(const World& world, const JobOptions& fits, const JobOptions& exceeds, int64_t limit) {
  const auto run = [&](const JobOptions& options) {
    return train(world, toy(options, kEvenToy), options, 3,
                 [](int64_t step) { return toy_batch(4, step, false); });
  };
  const Run unlimited = run(exceeds);
  EXPECT_GT(memory::pool_use(Pool::kAccelerator).peak, limit);
  const AcceleratorLimit limited(limit);
  expect_same(run(fits), unlimited);
  EXPECT_ERROR(run(exceeds), WEFT_RESOURCE_EXHAUSTED, exceeds.strategy, "accelerator memory", "wanted",
               "in use", "WEFT_ACCELERATOR_MEMORY");
}

}  // namespace weft::test
