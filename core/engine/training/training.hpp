// A training: one model under one strategy on this rank, step by step. The services in
// sdk/include/weft/training.h that schedule micro-batches act on it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "training/bindings.hpp"
#include "training/hooks.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft {

class Training : public weft_training {
 public:
  // Like Bindings, and lets the strategy start. Collective: every rank makes the same training.
  Training(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
           std::string strategy_name, const std::vector<weft_kv>& strategy_options, TrainingOptions options,
           std::shared_ptr<ParameterSource> source, const MakePlan& make_plan = {});

  // Runs forward and backward of one step over micro-batches, through the strategy's schedule. Returns the
  // loss of the global batch by term (already divided by the global counts) as this rank's part: the sum over
  // ranks is the loss.
  struct StepLoss {
    std::vector<std::string> names;
    std::vector<double> parts;  // one per term, weighted
    double total() const;
  };
  // The caller's own loss of the outputs instead of the model's: averaged over micro-batches and
  // data-parallel ranks.
  using Criterion = std::function<at::Tensor(const State& outputs, const Batch& batch)>;
  StepLoss run_step(const std::vector<Batch>& micro_batches, const Criterion& criterion = {});
  // Runs one forward without gradients through the strategy's schedule: the outputs, and the terms of the
  // loss if the batch has labels (sums and counts over this rank's samples).
  struct Forward {
    State outputs;
    std::vector<nn::LossTerm> terms;
    std::vector<nn::LossCount> counts;
  };
  Forward run_forward(const Batch& batch);

  // The caller's own loop. Where layers add auxiliary losses, the outputs have their weighted mean as
  // "aux_loss", which the caller adds to the loss.
  State forward(const Batch& batch);
  void backward(const at::Tensor& loss);
  void set_synchronise(bool synchronise) { synchronise_ = synchronise; }
  bool synchronise() const { return synchronise_; }

  using weft_training::plan;

 private:
  friend struct StepServices;
  // Runs a unit in the context of its micro-batch. Returns the auxiliary losses that its layers added.
  std::vector<nn::AuxiliaryLoss> forward_unit(weft_unit& unit, State& state,
                                              const std::shared_ptr<nn::ForwardContext>& context,
                                              const std::shared_ptr<ForwardRecord>& record);
  void drive(weft_step& step);
  void check_driven(const weft_step& step);

  Hooks hooks_;
  bool synchronise_ = true;
};

}  // namespace weft
