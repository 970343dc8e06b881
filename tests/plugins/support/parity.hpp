// Compares a strategy with one rank on the same global batches, on drawn or all `ranks` (support/slice.hpp).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

// One data-parallel rank's samples of a global batch: parts that differ by at most one; a rank without any
// gets a stand-in.
Batch own_part(const Batch& batch, int64_t rank, int64_t ranks);
Batch own_part(const Batch& batch, const World& world);  // every rank is data-parallel
Batch own_part(const Batch& batch, const Job& job);      // by the mesh of its strategy

// GPT-2, found through the registry.
struct TinyGpt2 {
  std::string architecture = "GPT2LMHeadModel";
  std::string precision = "fp32";
  int64_t width = 12, heads = 3, positions = 9, layers = 2;
  double dropout = 0, deviation = 0.3;           // of the initial values
  std::optional<double> attention_dropout = {};  // otherwise `dropout`
  std::string more;                              // keys of the configuration: ", \"num_labels\": 3"
};
Model tiny_gpt2(const TinyGpt2& options);
inline Model tiny_gpt2(const std::string& precision = "fp32", int64_t width = 12) {
  return tiny_gpt2(TinyGpt2{.precision = precision, .width = width});
}
// For it. The labels that count are many in the first samples and few in the last, so that ranks differ.
Batch gpt2_batch(int64_t samples, int64_t seed);

// The whole tensors in fp64 by name, put together from what the ranks publish; gradients without the scale of
// the loss, zero where nobody has any. Collective.
Tensors published_values(const Job& job);
Tensors published_gradients(const Job& job);

// What is trained. A model is made anew for every job; batch(step) is the global one.
struct Trial {
  double tolerance = 0;  // of gradients; 0: that of data parallelism
  // Parameters whose gradient is zero in exact arithmetic: what rounding leaves of it may differ by the
  // tolerance times the largest gradient of the model.
  std::vector<std::string> without_gradient = {};

  std::function<Model(const JobOptions&)> model = [](const JobOptions& options) {
    return tiny_gpt2(options.precision);
  };
  std::function<Batch(int64_t step)> batch = [](int64_t step) { return gpt2_batch(7, step); };
  // Returns a mean over samples, in place of the model's own loss. All batches have as many samples.
  Criterion criterion = {};
};

// What one backward and one SGD step with a rate of 1 make of a trial.
struct TrialOutcome {
  double loss = 0, next = 0;  // of the first and the second batch
  double norm = 0;            // of the gradients, if max_grad_norm clips them
  Tensors gradients, values;  // as the ranks publish them; the values after the step
};
// Collective.
TrialOutcome outcome_of(const World& world, const JobOptions& options, const Trial& trial);
// Expects equal outcomes, within `tolerance`. 0: bit for bit.
void expect_outcome(const TrialOutcome& found, const TrialOutcome& expected, const Trial& trial,
                    double tolerance);
// Returns the tolerance of the trial, or that of data parallelism.
double tolerance_of(const Trial& trial, const std::string& precision);

// The published gradient of every parameter, the values after the step, and the loss of the next step, which
// the layers' own copies make; with max_grad_norm also the norm of the gradients.
void expect_gradients_of_one_rank(const JobOptions& options, const std::vector<int>& ranks = {2, 3, 4},
                                  const Trial& trial = {});

// The same of many. Each launch of ranks has a time limit, and so runs a few of them.
struct Case {
  JobOptions options;
  Trial trial;
  std::string name = {};  // in failures
};
std::string describe(const Case& one);
void expect_gradients_of_one_rank(const std::vector<Case>& cases, int ranks);

// bf16 and fp16 against the same precision on one rank, unless `trial` says otherwise on a width where
// rounding evens out. Of each gradient the projection on the reference is within 0.3 % of 1: an element-wise
// maximum cannot tell an error from rounding. What is left has at most `rest` of its 2-norm.
void expect_half_gradients_of_one_rank(const JobOptions& options, double rest,
                                       const std::vector<int>& ranks = {2, 3, 4},
                                       const Trial& trial = {.model = [](const JobOptions& options) {
                                         return tiny_gpt2(options.precision, 96);
                                       }});

// 20 steps of AdamW (eps 1e-4: at 1e-8 it turns the rounding noise of gradients that are zero in exact
// arithmetic into whole steps): each loss within 1e-5, the norms, and the updates of all parameters within
// 5e-4.
void expect_steps_of_one_rank(const JobOptions& options, const std::vector<int>& ranks = {2, 3, 4},
                              const Trial& trial = {});

// Some steps of every update rule, clipped by the norm, in fp64: the values of all parameters within 1e-9.
void expect_rules_of_one_rank(JobOptions options, const std::vector<int>& ranks = {2, 3});

// Some steps of every update rule in half precision with the option master_weights=false: the values are
// those of `with_masters` if its masters are rounded after each step, bit for bit.
void expect_rules_without_masters(const JobOptions& without, const JobOptions& with_masters,
                                  const std::vector<int>& ranks);

}  // namespace weft::test
