#include "parallel/operations/libraries.hpp"

namespace weft::test {

namespace {

Tensors gradients_of_second_step(const World& world, const JobOptions& options, const Trial& trial) {
  Job job = boost(world, trial.model(options), options);
  job.train_step(own_part(trial.batch(0), job));
  job.accumulate_gradients(own_part(trial.batch(1), job));
  return published_gradients(job);
}

}  // namespace

void expect_second_step_of_one_rank(const JobOptions& options, const Trial& trial, int ranks,
                                    bool (*trained)(const std::string& name)) {
  const Tensors expected = gradients_of_second_step(one_rank(), {.precision = options.precision}, trial);
  int64_t factors = 0;
  for (const auto& [name, gradient] : expected) {
    EXPECT_EQ(gradient.count_nonzero().item<int64_t>() > 0, trained(name)) << name;
    factors += trained(name);
  }
  EXPECT_GT(factors, 0);
  on_ranks({ranks}, [&](World& world) {
    SCOPED_TRACE(options.strategy + " " + options.options);
    const Tensors found = gradients_of_second_step(world, options, trial);
    for (const auto& [name, gradient] : expected)
      EXPECT_TRUE(is_near(found.at(name), gradient, trial.tolerance)) << name;
    world.communicator().barrier();
  });
}

}  // namespace weft::test
