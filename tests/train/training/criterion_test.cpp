// A loss that a C program computes, with gradients of its own.
#include <gtest/gtest.h>

#include "application/handles.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

// The mean of the squares of the logits, and its gradient by hand.
weft_status mean_of_squares(void*, const weft_loss_arguments* arguments, weft_error*) {
  const weft_fields& outputs = arguments->outputs;
  for (uint64_t i = 0; i < outputs.size; ++i) {
    if (view(outputs.data[i].name) != "logits") continue;
    const at::Tensor& logits = outputs.data[i].tensor->tensor;
    *arguments->loss = logits.to(at::kDouble).square().mean().item<double>();
    arguments->gradients[i] = new weft_tensor{logits * (2.0 / static_cast<double>(logits.numel()))};
  }
  return WEFT_OK;
}

Criterion in_c(decltype(weft_criterion::loss) loss) {
  return application::criterion_of({sizeof(weft_criterion), nullptr, loss});
}

at::Tensor in_cpp(const State& outputs, const Batch&) {
  return outputs.at("logits").square().mean();
}

struct Trained {
  Tensors values;
  double loss = 0;
};

// Two steps of two micro-batches each, by AdamW.
Trained train(World world, const JobOptions& options, const Criterion& criterion) {
  BoosterOptions chosen;
  chosen.strategy = options.strategy;
  chosen.precision = options.precision;
  chosen.accumulate = 2;
  const auto rank = world.rank(), ranks = world.size();
  const Batch batch = toy_batch(8, 3);
  const Batch own = part_of(batch, 8 * rank / ranks, 8 * (rank + 1) / ranks);
  Model model = toy(options);
  Job job = Booster(chosen, std::move(world))
                .boost(model, optim::AdamW(model.parameters(), {.lr = 1e-2}), criterion);
  job.train_step(own);
  const double loss = job.train_step(own).loss;
  return {values_of(job), loss};
}

TEST(CriterionInC, TrainsAsTheSameLossInCpp) {
  const Trained expected = train(one_rank(), {.precision = "fp64"}, in_cpp);
  const Trained actual = train(one_rank(), {.precision = "fp64"}, in_c(mean_of_squares));
  EXPECT_NEAR(actual.loss, expected.loss, 1e-12);
  expect_near(actual.values, expected.values, 1e-12);
  on_ranks({2}, [&](World& world) {
    const Trained parallel =
        train(world, {.strategy = "torch_ddp", .precision = "fp64"}, in_c(mean_of_squares));
    EXPECT_NEAR(parallel.loss, expected.loss, 1e-12);
    expect_near(parallel.values, expected.values, 1e-10);
  });
}

// A loss scale would overflow it in the precision of the outputs.
TEST(CriterionInC, KeepsItsLossInDoublePrecision) {
  const State outputs = {{"logits", at::full({2, 2}, 300, at::kHalf).set_requires_grad(true)}};
  const at::Tensor loss = in_c(mean_of_squares)(outputs, Batch());
  EXPECT_EQ(loss.item<double>(), 90000);
  (loss * 2).backward();
  EXPECT_TRUE(outputs.at("logits").grad().equal(at::full({2, 2}, 300, at::kHalf)));
}

TEST(CriterionInC, IsRefusedWithoutAFittingGradient) {
  const State outputs = {{"logits", at::ones({2, 2}).set_requires_grad(true)}};
  const auto none = [](void*, const weft_loss_arguments*, weft_error*) -> weft_status { return WEFT_OK; };
  const auto narrow = [](void*, const weft_loss_arguments* arguments, weft_error*) -> weft_status {
    arguments->gradients[0] = new weft_tensor{at::ones({2})};
    return WEFT_OK;
  };
  const auto failing = [](void*, const weft_loss_arguments* arguments, weft_error* error) -> weft_status {
    arguments->gradients[0] = new weft_tensor{at::ones({2})};
    weft_error_set(error, WEFT_OUT_OF_RANGE, borrow("no such label"));
    return WEFT_OUT_OF_RANGE;
  };
  EXPECT_ERROR(in_c(none)(outputs, Batch()), WEFT_INVALID_ARGUMENT, "no gradient");
  EXPECT_ERROR(in_c(narrow)(outputs, Batch()), WEFT_INVALID_ARGUMENT, "\"logits\"", "and dtype");
  EXPECT_ERROR(in_c(failing)(outputs, Batch()), WEFT_OUT_OF_RANGE, "criterion: no such label");
  EXPECT_ERROR(application::criterion_of({sizeof(weft_criterion) - 1, nullptr, none}), WEFT_INVALID_ARGUMENT,
               "struct_size");
}

}  // namespace

}  // namespace weft::test
