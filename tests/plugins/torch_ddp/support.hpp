// Jobs under torch_ddp, and what one rank makes of the same global batch.
#pragma once

#include <gtest/gtest.h>

#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

inline JobOptions ddp(const std::string& options = "{}", const std::string& precision = "fp32") {
  JobOptions chosen;
  chosen.strategy = "torch_ddp";
  chosen.options = options;
  chosen.precision = precision;
  return chosen;
}

// The gradients that one backward leaves, and the loss.
struct Outcome {
  Tensors gradients;
  double loss = 0;
};

inline Outcome backward(Job& job, const Batch& batch) {
  Outcome outcome;
  outcome.loss = job.accumulate_gradients(batch);
  outcome.gradients = grad_fields_of(job);
  return outcome;
}

inline double tolerance(const std::string& precision) {
  return precision == "fp64" ? kGradientFp64 : kGradientFp32;
}

inline void expect_near(const Outcome& actual, const Outcome& expected, const std::string& precision) {
  EXPECT_NEAR(actual.loss, expected.loss, tolerance(precision) * std::abs(expected.loss));
  expect_near(actual.gradients, expected.gradients, tolerance(precision));
}

// On one rank without a strategy.
inline Outcome on_one_rank(const Batch& batch, const JobOptions& like, const std::string& keys = "") {
  JobOptions options = like;
  options.strategy = "none";
  options.options = "{}";
  Job job = boost(one_rank(), toy(options, keys), options);
  return backward(job, batch);
}

}  // namespace weft::test
