// ShardFormer: divides a model over ranks by its shard policy and leaves everything else to the caller, whose
// loop, optimizer and data parallelism may be libtorch's own. A Booster does the same for a whole job, under
// any strategy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/booster.hpp"
#include "weft/model.hpp"
#include "weft/world.hpp"

namespace weft {

// Names, meanings and defaults of the options of the strategies that take `tp_size`
// (sdk/docs/tensor_parallel.md).
struct ShardConfig {
  // Ranks that hold a part of each layer and share their samples; none: every layer stays whole.
  Communicator tensor_parallel_group;
  // Ranks that share their samples too and have some positions of each sequence (all_to_all, ring_attn).
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

// A model that is divided and has memory. A copy is the same model. Every rank of the groups makes the same
// calls in the same order; a failed collective throws UNAVAILABLE.
class ShardedModel {
 public:
  // All that train, tied ones once: this rank's parts, for optimizers of libtorch.
  std::vector<at::Tensor> parameters() const;
  // The modules, torch::nn::Module's (weft/nn/model.hpp).
  nn::Model& module() const;
  void train() const;
  void eval() const;

  // Forward in the mode that train() and eval() set: the outputs under their Hugging Face names, and "loss"
  // if the batch has labels, the mean over those of these samples. Its backward() leaves complete gradients
  // on every tensor-parallel rank. Ranks of a sequence-parallel group are data-parallel in this: averaged
  // over them, losses and gradients are those of the whole sequences. With dropout the default generators of
  // the tensor-parallel ranks have to stay in step.
  State operator()(const Batch& batch) const;

  // The norm of all gradients, the divided ones of every rank and the whole ones once; scales them down to
  // `max_norm` if it is larger. Collective; after the caller's own sums over data-parallel ranks. libtorch's
  // clip_grad_norm_ would see this rank's part alone.
  double clip_grad_by_norm(double max_norm, double norm_type = 2) const;

  // A Hugging Face folder, or one file by its extension, of whole tensors without padding. For the ranks of
  // one tensor-parallel group; the first of them writes. `background` is refused.
  void save(const std::string& path, const SaveOptions& options = {}) const;

 private:
  friend class ShardFormer;
  struct Shared;
  explicit ShardedModel(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

class ShardFormer {
 public:
  // Throws INVALID_ARGUMENT naming options that do not go together.
  explicit ShardFormer(ShardConfig config);

  // Applies the policy, gives the parameters memory, and reads their parts from the model's checkpoint, or
  // makes initial values: the same as on one rank. The tensor-parallel ranks get the default generator of the
  // first of them. Collective over both groups; throws on all of their ranks if one fails or they differ in
  // model, policy or options. FAILED_PRECONDITION for a model that is boosted or divided already.
  ShardedModel optimize(const Model& model) const;

 private:
  ShardConfig config_;
};

}  // namespace weft
