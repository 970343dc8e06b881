// A training: one model under one strategy on this rank. Owns units, parameters' identity, hooks and the
// calls of the autograd engine; the services in sdk/include/weft/training.h act on it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box.hpp"
#include "parallel/apply.hpp"
#include "training/handles.hpp"
#include "training/mesh.hpp"
#include "weft/nn/model.hpp"
#include "weft/strategy.h"

namespace weft {

class ForwardRecord;

// Where values come from when a strategy asks for them.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // A box of the whole parameter; `destination` has its extent, with any strides. False if the source does
  // not have the parameter.
  virtual bool read(const std::string& name, const checkpoint::Box& box, const at::Tensor& destination) = 0;
};

struct TrainingOptions {
  std::string precision = "fp32";
  std::string recompute = "off";
  int64_t seed = 42;
  bool master_weights = true;                   // fp32 masters of half-precision parameters
  bool cast_inputs = true;                      // floating-point inputs take the working dtype
  bool outputs_fp32 = false;                    // half-precision outputs are given in fp32
  std::optional<at::ScalarType> autocast = {};  // operations that gain from it run in this dtype
  uint32_t tensor_size = 1;                     // ranks of the tensor axis
  uint32_t sequence_size = 1;                   // ranks that share a sequence
};

class Training {
 public:
  // The plan for a mesh; asked once, on every rank.
  using MakePlan = std::function<plan::Plan(const Mesh& mesh)>;
  // `api` lives as long as the process. Without `make_plan` no rank may be on the tensor axis beside another.
  // Collective: every rank makes the same training.
  Training(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
           std::string strategy_name, const std::vector<weft_kv>& strategy_options, TrainingOptions options,
           std::shared_ptr<ParameterSource> source, const MakePlan& make_plan = {});
  ~Training();
  Training(const Training&) = delete;

  const World& world() const { return world_; }
  nn::Model& model() const { return *model_; }
  const std::string& strategy_name() const { return strategy_name_; }
  const TrainingOptions& options() const { return options_; }
  const std::vector<std::unique_ptr<weft_param>>& params() const { return params_; }
  const std::vector<std::unique_ptr<weft_unit>>& units() const { return units_; }
  weft_param* find_param(std::string_view name) const;  // canonical or tied name; null if there is none
  at::ScalarType dtype() const;                         // that the layers compute with
  at::ScalarType master_dtype() const;                  // that the optimizer updates
  // Multiplies every loss before its backward, so that gradients in fp16 do not vanish; who updates divides
  // by it.
  double loss_scale() const { return loss_scale_; }
  void set_loss_scale(double scale) { loss_scale_ = scale; }

  // Coordinates and groups.
  const Mesh& mesh() const { return mesh_; }
  weft_comm* comm(uint32_t axes);

  // Forward and backward of one step over micro-batches, through the strategy's schedule. Returns the loss of
  // the global batch by term (already divided by the global counts) as this rank's part: the sum over ranks
  // is the loss.
  struct StepLoss {
    std::vector<std::string> names;
    std::vector<double> parts;  // one per term, weighted
    double total() const;
  };
  // The caller's own loss of the outputs instead of the model's: averaged over micro-batches and
  // data-parallel ranks.
  using Criterion = std::function<at::Tensor(const State& outputs, const Batch& batch)>;
  StepLoss run_step(const std::vector<Batch>& micro_batches, const Criterion& criterion = {});
  // One forward without gradients through the strategy's schedule: the outputs, and the terms of the loss if
  // the batch has labels (sums and counts over this rank's samples).
  struct Forward {
    State outputs;
    std::vector<nn::LossTerm> terms;
    std::vector<nn::LossCount> counts;
  };
  Forward run_forward(const Batch& batch);

  // The model's, in the precisions that the options ask for.
  State input(const Batch& batch) const;
  State outputs(const State& last) const;

  // The caller's own loop.
  State forward(const Batch& batch);
  void backward(const at::Tensor& loss);
  void set_synchronise(bool synchronise) { synchronise_ = synchronise; }
  bool synchronise() const { return synchronise_; }

  // The model's layers as before this training, for another one, and back.
  void lift_plan();
  void put_plan_back();

  std::vector<Shard> publish();
  void values_changed();
  void zero_gradients();
  // Takes and clears what got a gradient since the last call, by parameter.
  std::vector<bool> take_touched();

  // Hook dispatch. The boundaries of units and the post-accumulate hooks call the backward ones.
  void fire_before_forward(weft_unit& unit);
  void fire_after_forward(weft_unit& unit);
  void fire_begin_backward(const weft_backward_info& info);
  void fire_end_backward(const weft_backward_info& info);
  void fire_before_backward(weft_unit& unit);
  void fire_after_backward(weft_unit& unit);
  void fire_gradient_ready(weft_param& param);
  // True while the host runs the autograd engine: hooks of backward mean something only then.
  bool in_backward() const { return in_backward_; }
  // One backward through several forwards: the hooks of later ones come first, missing ones too.
  void complete_later_forwards(const ForwardRecord& record);

 private:
  friend struct Services;
  friend struct StepServices;
  void make_mesh();
  void apply_plan(const MakePlan& make_plan);
  void make_params();
  void make_units();
  // Whether the strategy keeps its promises (promises.cpp).
  void require_one_mesh(const std::function<std::string()>& describe) const;
  void check_bound() const;
  void check_published();
  void check_ranges(const std::vector<Shard>& shards) const;
  void check_driven(const weft_step& step) const;
  void forward_unit(weft_unit& unit, State& state, const std::shared_ptr<ForwardRecord>& record);
  void drive(weft_step& step);
  void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    const weft_backward_info& info, const std::shared_ptr<ForwardRecord>& record);
  void check_alive() const;
  // The fewer units took part, the more are made up for here.
  void complete_records(const std::shared_ptr<ForwardRecord>& record);
  // Runs `body`. A failure makes this training unusable from then on, unless nothing had happened yet that
  // other ranks or the strategy know of: a batch that is refused harms nothing.
  template <class Body>
  auto guarded_step(const Body& body) {
    check_alive();
    disturbed_ = false;
    try {
      return body();
    } catch (const std::exception& e) {
      if (disturbed_) failure_ = e.what();
      throw;
    } catch (...) {
      if (disturbed_) failure_ = "an exception that is no std::exception";
      throw;
    }
  }

  World world_;
  std::shared_ptr<nn::Model> model_;
  const weft_strategy_api* api_;
  weft_strategy* strategy_ = nullptr;
  std::string strategy_name_;
  TrainingOptions options_;
  std::shared_ptr<ParameterSource> source_;
  Mesh mesh_;
  std::unique_ptr<parallel::AppliedPlan> plan_;  // null: the model is as it is
  std::vector<std::pair<uint32_t, std::unique_ptr<weft_comm>>>
      comms_;  // by set of axes that are larger than 1
  std::vector<std::unique_ptr<weft_param>> params_;
  std::vector<std::unique_ptr<weft_unit>> units_;
  std::vector<std::pair<std::string, at::Tensor>> buffers_;
  std::vector<std::array<int64_t, 3>> ranges_;         // what is published: parameter, begin, count
  std::vector<std::weak_ptr<ForwardRecord>> pending_;  // forwards whose backward is to come
  double loss_scale_ = 1;
  bool synchronise_ = true;
  bool in_backward_ = false;
  bool disturbed_ = false;  // since the step began a hook ran, or a collective
  std::string failure_;     // of the first failed step: the strategy is dead then
};

}  // namespace weft

struct weft_training : weft::Training {
  using weft::Training::Training;
};
