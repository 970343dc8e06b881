// What a strategy is bound to: the model's parameters and units on this rank, the mesh with its groups, the
// storage behind the parameters, and the ranges that the strategy publishes of them. Optimizers and
// checkpoints need no more than this.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "box/box.hpp"
#include "mesh/mesh.hpp"
#include "plan/plan.hpp"
#include "training/handles.hpp"
#include "training/strategy.hpp"
#include "weft/nn/model.hpp"

namespace weft {

namespace parallel {
class AppliedPlan;
}

// Where values come from when a strategy asks for them.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // A box of the whole parameter; `destination` has its extent, with any strides. False if the source does
  // not have the parameter.
  virtual bool read(const std::string& name, const Box& box, const at::Tensor& destination) = 0;
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

class Bindings {
 public:
  // Makes the plan for a mesh; called once, on every rank.
  using MakePlan = std::function<plan::Plan(const Mesh& mesh)>;
  // Makes the strategy out of `api`, which lives as long as the process. start() lets it work.
  Bindings(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
           std::string strategy_name, const std::vector<weft_kv>& strategy_options, TrainingOptions options,
           std::shared_ptr<ParameterSource> source);
  ~Bindings();
  Bindings(const Bindings&) = delete;

  const World& world() const { return world_; }
  nn::Model& model() const { return *model_; }
  const TrainingOptions& options() const { return options_; }
  Strategy& strategy() const { return *strategy_; }
  const std::string& strategy_name() const { return strategy_->name(); }
  const std::vector<std::unique_ptr<weft_param>>& params() const { return params_; }
  const std::vector<std::unique_ptr<weft_unit>>& units() const { return units_; }
  const std::vector<std::pair<std::string, at::Tensor>>& buffers() const { return buffers_; }
  weft_param* find_param(std::string_view name) const;  // canonical or tied name; null if there is none
  at::ScalarType dtype() const;                         // that the layers compute with
  at::ScalarType master_dtype() const;                  // that the optimizer updates

  // Coordinates and groups.
  const Mesh& mesh() const { return mesh_; }
  weft_comm* comm(Axes axes);

  // Fills `values` with elements [begin, begin + count) of this rank's part of `param` as training begins.
  void read(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values) const;
  // Gives the parameter its storage; the strategy hears from then on when its gradient is ready.
  void bind(weft_param& param, const at::Tensor& storage);
  // Returns the ranges that the strategy publishes, which are the same in every call.
  std::vector<Shard> publish();
  void values_changed();
  void zero_gradients();
  // Returns and clears which parameters got a gradient since the last call.
  std::vector<bool> take_touched();

  // Multiplies every loss before its backward, so that gradients in fp16 do not vanish; whoever updates
  // divides by it.
  double loss_scale() const { return loss_scale_; }
  void set_loss_scale(double scale) { loss_scale_ = scale; }

  // Takes the plan out of the model's layers, so that another training can have the model, and puts it back.
  void lift_plan();
  void put_plan_back();

 protected:
  // Opens the mesh, applies the plan and has the strategy bind storage. Without `make_plan` the tensor axis
  // has one rank. After an exception the model is as it was. Collective.
  void start(const MakePlan& make_plan);
  parallel::AppliedPlan* plan() const { return plan_.get(); }  // null: the model is as it is

 private:
  void make_mesh();
  void apply_plan(const MakePlan& make_plan);
  void make_params();
  void make_units();
  // Whether the strategy keeps its promises (promises.cpp).
  void require_one_mesh(const std::function<std::string()>& describe) const;
  void check_bound() const;
  void check_published();
  void check_ranges(const std::vector<Shard>& shards) const;

  World world_;
  std::shared_ptr<nn::Model> model_;
  TrainingOptions options_;
  std::shared_ptr<ParameterSource> source_;
  Mesh mesh_;
  std::unique_ptr<parallel::AppliedPlan> plan_;
  std::vector<std::pair<Axes, std::unique_ptr<weft_comm>>> comms_;  // by set of open axes
  std::vector<std::unique_ptr<weft_param>> params_;
  std::vector<std::unique_ptr<weft_unit>> units_;
  std::vector<std::pair<std::string, at::Tensor>> buffers_;
  std::vector<std::array<int64_t, 3>> ranges_;  // what is published: parameter, begin, count
  double loss_scale_ = 1;
  std::unique_ptr<Strategy> strategy_;  // ends before what it was bound to
};

}  // namespace weft

// What strategies hold: they see the bindings of a training.
struct weft_training : weft::Bindings {
  using weft::Bindings::Bindings;
};
