// Compares training on the simulated accelerator with training on the CPU, and with itself as graphs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plugins/support/parity.hpp"
#include "sim/training/sim_ranks.hpp"

namespace weft::test {

// Compares each case with itself on the CPU, on as many ranks, with the tolerance of its trial or, if
// `exactly`, bit for bit.
void expect_results_of_the_cpu(const std::vector<Case>& cases, int ranks, bool exactly = false);
void expect_results_of_the_cpu(const std::map<int, std::vector<Case>>& cases, bool exactly = false);

using Batches = std::function<Batch(int64_t step)>;

// A job with CUDA graphs or without.
Job graph_job(const World& world, Model model, JobOptions options, bool graphs,
              const std::string& rule = "adamw", double rate = 1e-2);

struct Trained {
  std::vector<double> losses;
  Tensors values;
  std::vector<int64_t> updates;   // after each step, without those that fp16 has skipped
  std::vector<int64_t> launches;  // by step
  std::vector<int64_t> waits;     // of the host, by step
  at::Tensor random;              // the state of the generators
};
inline constexpr int kGraphSteps = 8;
Trained train_steps(const World& world, const OnSim& sim, Model model, const JobOptions& options, bool graphs,
                    const Batches& batch_of, const std::string& rule = "adamw");

// Expects that graphs compute what eager steps do: bit for bit, or with a tolerance, by SGD. The values of
// parameters `without_gradient` are noise, and not compared. Returns the eager steps.
Trained expect_eager(const World& world, const OnSim& sim, const std::function<Model()>& model,
                     const JobOptions& options, const Batches& batch_of, double tolerance = 0,
                     const std::vector<std::string>& without_gradient = {});

}  // namespace weft::test
