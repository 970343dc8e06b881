// Gradients over several backwards, the caller's own loop, and clipping.
#include <torch/nn/utils/clip_grad.h>

#include "plugins/torch_ddp/support.hpp"

namespace weft::test {

namespace {

constexpr const char* kUngated = "\"gated\": false";

at::Tensor mean_square(const Job& job, const Batch& batch) {
  return job.model(batch).at("logits").square().mean();
}

class OwnLoop : public testing::TestWithParam<bool> {
 protected:
  static JobOptions options() {
    return ddp(std::string("{\"gradient_as_bucket_view\": ") + (GetParam() ? "true}" : "false}"), "fp64");
  }
  // The mean over 8 samples, on one rank.
  static Tensors reference(const Batch& global, double times = 1) {
    JobOptions plain;
    plain.precision = "fp64";
    Job alone = boost(one_rank(), toy(plain, kUngated), plain);
    Booster({.strategy = "none", .precision = "fp64"}, one_rank())
        .backward(mean_square(alone, global) * times, alone.optimizer);
    return grad_fields_of(alone);
  }
};

TEST_P(OwnLoop, AccumulatesUnderNoSyncWhatOneBigBatchGives) {
  const Batch global = toy_batch(8, 1);
  const Tensors expected = reference(global);
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, toy(options(), kUngated), options());
    Booster booster({.strategy = "torch_ddp"}, world);
    const Batch own = own_part(global, world);
    const auto before = communicated_bytes();
    {
      const Booster::NoSync no_sync = booster.no_sync(job.model);
      booster.backward(mean_square(job, part_of(own, 0, 2)) / 2, job.optimizer);
    }
    EXPECT_EQ(communicated_bytes(), before);
    booster.backward(mean_square(job, part_of(own, 2, 4)) / 2, job.optimizer);
    expect_near(grad_fields_of(job), expected, kGradientFp64);
  });
}

TEST_P(OwnLoop, AddsUpTwoSynchronisedBackwards) {
  const Batch global = toy_batch(8, 2);
  const Tensors expected = reference(global);
  on_ranks({2, 4}, [&](World& world) {
    Job job = boost(world, toy(options(), kUngated), options());
    Booster booster({.strategy = "torch_ddp"}, world);
    const Batch own = own_part(global, world);
    const int64_t samples = 8 / world.size();
    for (const int64_t half : {0, 1})
      booster.backward(mean_square(job, part_of(own, half * samples / 2, (half + 1) * samples / 2)) / 2,
                       job.optimizer);
    expect_near(grad_fields_of(job), expected, kGradientFp64);
    // And then one that is not synchronised, and one that is.
    const auto again = [&](int64_t half) {
      booster.backward(mean_square(job, part_of(own, half * samples / 2, (half + 1) * samples / 2)) / 2,
                       job.optimizer);
    };
    {
      const Booster::NoSync no_sync = booster.no_sync(job.model);
      again(0);
    }
    again(1);
    Tensors twice = expected;
    for (auto& [name, gradient] : twice) gradient = gradient * 2;
    expect_near(grad_fields_of(job), twice, kGradientFp64);
  });
}

TEST_P(OwnLoop, TakesSeveralForwardsAndEvaluationBeforeABackward) {
  const Batch global = toy_batch(8, 3);
  const Tensors expected = reference(global);
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, toy(options(), kUngated), options());
    Booster booster({.strategy = "torch_ddp"}, world);
    const Batch own = own_part(global, world);
    const at::Tensor first = mean_square(job, part_of(own, 0, 2));
    job.evaluate(own);
    const at::Tensor second = mean_square(job, part_of(own, 2, 4));
    booster.backward((first + second) / 2, job.optimizer);
    expect_near(grad_fields_of(job), expected, kGradientFp64);
  });
}

INSTANTIATE_TEST_SUITE_P(Views, OwnLoop, testing::Bool());

// torch::nn::utils on the same gradients, on one rank.
TEST(Clipping, IsThatOfTorchOverAllRanks) {
  const Batch global = toy_batch(8, 4);
  const auto reference = [&](const std::function<double(std::vector<at::Tensor>)>& clip, double* norm) {
    JobOptions plain;
    plain.precision = "fp64";
    Job alone = boost(one_rank(), toy(plain, kUngated), plain);
    alone.accumulate_gradients(global);
    // Without the second name of the tied parameter, which would count twice.
    std::vector<at::Tensor> parameters;
    for (const auto& item : alone.model.module().named_parameters())
      if (item.key() != "head.weight") parameters.push_back(item.value());
    *norm = clip(parameters);
    return grad_fields_of(alone);
  };
  for (const double limit : {0.01, 1e6}) {
    double norm = 0, unused = 0;
    const Tensors by_norm = reference(
        [&](std::vector<at::Tensor> p) { return torch::nn::utils::clip_grad_norm_(p, limit); }, &norm);
    const Tensors by_value = reference(
        [&](std::vector<at::Tensor> p) {
          torch::nn::utils::clip_grad_value_(p, limit);
          return 0.0;
        },
        &unused);
    on_ranks({1, 2, 3}, [&](World& world) {
      const JobOptions options = ddp("{}", "fp64");
      Job job = boost(world, toy(options, kUngated), options);
      job.accumulate_gradients(own_part(global, world));
      EXPECT_NEAR(job.optimizer.clip_grad_by_norm(limit), norm, 1e-11 * norm);
      expect_near(grad_fields_of(job), by_norm, kGradientFp64);
      job.optimizer.zero_grad();
      job.accumulate_gradients(own_part(global, world));
      job.optimizer.clip_grad_by_value(limit);
      expect_near(grad_fields_of(job), by_value, kGradientFp64);
    });
  }
}

TEST(Clipping, RefusesLimitsThatAreNotPositive) {
  Job job = boost(one_rank(), toy(), ddp());
  EXPECT_ERROR(job.optimizer.clip_grad_by_norm(0), WEFT_INVALID_ARGUMENT, "clip_grad_by_norm", "positive");
  EXPECT_ERROR(job.optimizer.clip_grad_by_value(-1), WEFT_INVALID_ARGUMENT, "clip_grad_by_value", "positive");
}

}  // namespace

}  // namespace weft::test
