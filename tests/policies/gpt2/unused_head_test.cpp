// A head that no label reaches. Backward passes through it without a gradient.
#include "policies/gpt2/gpt2_trial.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

TEST(UnusedHead, IsNamedByAStrategyThatExpectsEveryGradient) {
  const Trial trial = gpt2_trial("GPT2DoubleHeadsModel", "fp32");
  Batch batch;
  for (const auto& [name, tensor] : trial.batch(1))
    if (name != "mc_labels") batch.set(name, tensor);
  on_ranks({2}, [&](World& world) {
    JobOptions options{.strategy = "torch_ddp"};
    Job job = boost(world, trial.model(options), options);
    EXPECT_ERROR(job.train_step(batch), WEFT_FAILED_PRECONDITION, "multiple_choice_head",
                 "find_unused_parameters=true");
    options.options = R"({"find_unused_parameters": true})";
    EXPECT_NO_THROW(boost(world, trial.model(options), options).train_step(batch));
  });
}

}  // namespace

}  // namespace weft::test
