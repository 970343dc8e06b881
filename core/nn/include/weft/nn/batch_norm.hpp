// Batch normalisation, and buffers that belong to a model's state.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/layers.hpp"

namespace weft::nn {

// A module whose registered buffers training changes, such as running statistics. Saves write them under
// their names, as those of rank 0, and loads read them on every rank, like parameters. Pipeline stages are
// refused for models that have some.
class KeepsBuffers {
 public:
  virtual ~KeepsBuffers() = default;
};
// Returns the buffers of all such modules in `model`, with their names in it ("layer1.0.bn1.running_mean").
std::vector<std::pair<std::string, at::Tensor>> kept_buffers(const torch::nn::Module& model);

// The operation of a BatchNorm whose ranks share their statistics; the host sets it.
class StatisticsOperation {
 public:
  virtual ~StatisticsOperation() = default;
  // Returns the sum of `own` over the ranks that train on different samples, which autograd differentiates.
  virtual at::Tensor sum(const at::Tensor& own) const = 0;
};

// Normalises each channel over samples and positions, like torch.nn.BatchNorm2d: in training mode by the mean
// and variance of the micro-batch, in evaluation mode by running_mean and running_var (Ioffe and Szegedy,
// arXiv:1502.03167). Its parameters are "weight" and "bias" (C), its buffers "running_mean", "running_var"
// (C) in fp32 (fp64 with parameters in fp64) and "num_batches_tracked". A unit that runs again for
// recomputation leaves the buffers alone.
class BatchNorm : public Layer, public KeepsBuffers {
 public:
  struct Options {
    double epsilon = 1e-5;
    double momentum = 0.1;  // the share of the micro-batch in the new running statistics
    // Whether the mean and variance are those of the samples of all ranks (torch.nn.SyncBatchNorm). Otherwise
    // each rank has its own statistics and buffers.
    bool synchronised = false;
  };
  BatchNorm(int64_t channels, const Options& options, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, C, ...) -> the same shape
  std::string kind() const override { return "BatchNorm"; }

  const Options options;
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;
  std::shared_ptr<StatisticsOperation> operation;  // null: this rank's samples are all

 private:
  void track(const at::Tensor& mean, const at::Tensor& unbiased_variance) const;
};

}  // namespace weft::nn
