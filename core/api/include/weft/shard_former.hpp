// ShardFormer: splits a model over ranks by its shard policy. Loop, optimizer and data parallelism are the
// caller's, for example libtorch's. A Booster does this for a whole job, under any strategy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/booster.hpp"
#include "weft/model.hpp"
#include "weft/world.hpp"

namespace weft {

// How a model is split. Fields have the names, meanings and defaults of the options of strategies that accept
// `tp_size` (sdk/docs/tensor_parallel.md, sdk/docs/sequence_parallel.md).
struct ShardConfig {
  // Ranks that hold a part of each layer and share their samples. Null: every layer stays whole.
  Communicator tensor_parallel_group;
  // Ranks that share their samples and hold some positions of each sequence (all_to_all, ring_attn).
  Communicator sequence_parallel_group;
  bool enable_sequence_parallelism = false;
  std::string sequence_parallelism_mode;  // empty: all_to_all
  bool enable_sequence_overlap = false;
  int64_t inner_ring_size = 0;  // 0: the whole group
  bool enable_fused_normalization = true, enable_flash_attention = true, enable_jit_fused = true;
  bool parallel_output = true;
  int64_t make_vocab_size_divisible_by = 1;
  std::string custom_policy;  // a name, or the path of a JSON file; empty: the model family's
  int64_t seed = 42;          // of initial values
};

// A model that is split over ranks and has memory. A copy is the same model. Every rank of the groups makes
// the same calls in the same order; a failed collective throws UNAVAILABLE.
class ShardedModel {
 public:
  // Returns this rank's parts of all parameters that are trained, tied ones once, for an optimizer of
  // libtorch.
  std::vector<at::Tensor> parameters() const;
  // Returns the modules, which are torch::nn::Module (weft/nn/model.hpp).
  nn::Model& module() const;
  void train() const;
  void eval() const;

  // Runs forward in the mode that train() and eval() set. Returns the outputs under their Hugging Face names,
  // and "loss" if the batch has labels: the mean over the labels of these samples. Its backward() leaves
  // complete gradients on every tensor-parallel rank. Average losses and gradients over the ranks of a
  // sequence-parallel group as over data-parallel ranks. With dropout, keep the default generators of the
  // tensor-parallel ranks in step.
  State operator()(const Batch& batch) const;

  // Returns the norm of all gradients and scales them down to `max_norm` if it is larger. Counts the parts of
  // all ranks, and replicated gradients once; libtorch's clip_grad_norm_ would see this rank's part alone.
  // Call it after the sums over data-parallel ranks. Collective.
  double clip_grad_by_norm(double max_norm, double norm_type = 2) const;

  // Writes a Hugging Face folder, or one file if `path` has an extension, of whole tensors without padding.
  // Called by the ranks of one tensor-parallel group, whose first rank writes. `background` is refused.
  void save(const std::string& path, const SaveOptions& options = {}) const;

 private:
  friend class ShardFormer;
  struct Shared;
  explicit ShardedModel(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

// Splits models as its configuration says.
class ShardFormer {
 public:
  // Throws INVALID_ARGUMENT naming options that exclude each other.
  explicit ShardFormer(ShardConfig config);

  // Applies the policy, gives the parameters memory, and reads this rank's parts from the model's checkpoint
  // or makes initial values, equal to those of one rank. Sets the default generator of the tensor-parallel
  // ranks to that of the first. Collective over both groups; throws on all of their ranks if one fails or if
  // they differ in model, policy or options. Throws FAILED_PRECONDITION for a model that is boosted or split
  // already.
  ShardedModel optimize(const Model& model) const;

 private:
  ShardConfig config_;
};

}  // namespace weft
