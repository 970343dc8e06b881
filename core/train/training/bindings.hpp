// Bindings: what the host and a strategy share. The parameters and units of the model on this rank, the
// storage behind them, the mesh with its communicators, and the shards that the strategy publishes.
// Optimizers and checkpoints use nothing else of a training.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "box/box.hpp"
#include "mesh/mesh.hpp"
#include "plan/plan.hpp"
#include "schedule/stage_division.hpp"
#include "training/chosen_loss.hpp"
#include "training/handles.hpp"
#include "training/host_options.hpp"
#include "training/shared_gradients.hpp"
#include "training/strategy.hpp"
#include "weft/booster_options.hpp"
#include "weft/nn/model.hpp"

namespace weft {

namespace parallel {
class AppliedPlan;
}

// Provides the values that parameters begin with, for example from a checkpoint.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Copies a box of the whole parameter into `destination`, which has the shape of the box and any strides.
  // Returns false if the source does not have the parameter.
  virtual bool read(const std::string& name, const Box& box, const at::Tensor& destination) = 0;
};

// What a training is told.
struct TrainingOptions {
  BoosterOptions booster;
  std::string precision = "fp32";  // the one that the booster and the strategy agree on
  HostOptions host;
  ChosenLoss loss = {};  // of a library of objectives; none: the model's own
};

class Bindings {
 public:
  // Makes the plan for a mesh. Called once, on every rank.
  using MakePlan = std::function<plan::Plan(const Mesh& mesh)>;
  // Lists units and parameters, and creates the strategy. `api` lives as long as the process. The strategy
  // does nothing before start().
  Bindings(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
           std::string strategy_name, const std::vector<weft_kv>& strategy_options, TrainingOptions options,
           std::shared_ptr<ParameterSource> source);
  ~Bindings();
  Bindings(const Bindings&) = delete;
  // Makes the mesh, applies the plan, and lets the strategy bind storage. Called once, before anything else.
  // Without `make_plan` the tensor axis must have one rank. If it throws, the model is as before. Collective.
  void start(const MakePlan& make_plan);

  const World& world() const { return world_; }
  nn::Model& model() const { return *model_; }
  const TrainingOptions& options() const { return options_; }
  Strategy& strategy() const { return *strategy_; }
  const std::string& strategy_name() const { return strategy_->name(); }
  const std::vector<std::unique_ptr<weft_param>>& params() const { return params_; }
  const std::vector<std::unique_ptr<weft_unit>>& units() const { return units_; }
  const std::vector<std::pair<std::string, at::Tensor>>& buffers() const { return buffers_; }
  weft_param* find_param(std::string_view name) const;  // by canonical or tied name; null if there is none
  // The working dtype of the model. Single parameters may be wider, as a model may keep some in fp32.
  at::ScalarType dtype() const;
  at::ScalarType master_dtype() const;  // the dtype of the values that the optimizer updates
  at::ScalarType master_dtype(at::ScalarType working) const;  // of a parameter of this working dtype

  // The virtual stages into which the host divides the units; one with all units if it does not, as under a
  // strategy that makes the pipeline axis itself. Parameters of units that run on other ranks are absent
  // here: of no elements, without storage, and unknown to the strategy.
  const pipeline::StageDivision& stages() const { return stages_; }
  bool runs_here(const weft_unit& unit) const { return unit.here; }
  // What the strategy sees, in the order of the model: the units that run on this rank, and their parameters.
  const std::vector<weft_unit*>& own_units() const { return own_units_; }
  const std::vector<weft_param*>& own_params() const { return own_params_; }
  // The gradients of this rank's parameters that other stages have, too.
  SharedGradients& shared_gradients() { return shared_gradients_; }

  const Mesh& mesh() const { return mesh_; }
  // Returns the communicator along a set of axes; null before start() has made the mesh.
  weft_comm* comm(Axes axes);
  parallel::AppliedPlan* plan() const { return plan_.get(); }  // null without a plan
  // Whether each rank's outputs have only a part of the logits.
  bool divides_logits() const { return divides_logits_; }

  // Fills `values` with the initial values of elements [begin, begin + count) of this rank's part of `param`.
  void read(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values) const;
  // Gives the parameter its storage. From then on the strategy's `gradient_ready` is called for it.
  void bind(weft_param& param, const at::Tensor& storage);
  // Returns the shards that the strategy publishes: the same ranges in every call. `reason` is WEFT_REASON_*.
  // `kept` receives the ranges of its own tensors.
  std::vector<Shard> publish(uint32_t reason, std::vector<Kept>* kept = nullptr);
  // Throws INTERNAL on every rank if the strategy publishes other values than those in `written`, which it
  // published before and the host has written: then they are copies, and what is trained is lost. Collective.
  void check_written(const std::vector<Shard>& written);
  // Returns the distinct sets of axes over which strategies split published shards, the same on all ranks.
  const std::set<Axes>& divided_axes() const { return divided_axes_; }
  // Throws on every rank unless all ranks that hold the same elements of a parameter publish the same bits of
  // them. The text names the parameter and the ranks, and says what to do about values of this origin:
  // FAILED_PRECONDITION for values from files and the seed, INTERNAL for those that a strategy made. Reads
  // all values once; all-reduces 56 bytes for each parameter and division, and 16 for each part. Collective.
  enum class Origin { kBoosted, kLoaded, kTakenOver, kTrained, kMerged, kSaved };
  void check_replicas(Origin origin);
  // Tells the strategy that the published values and their working copies have changed.
  void values_changed(uint32_t reason);
  // The same after the values of `shards` alone were written: makes the working copies first, and checks that
  // the strategy has what was written. Collective.
  void values_written(uint32_t reason, const std::vector<Shard>& shards);
  // The open axes along which the strategy lets replicas differ between two merges; 0: none.
  Axes local_axes() const { return local_axes_; }
  // Notes that an update changed the values, and merges the replicas if that is due. Collective.
  void updated();
  int64_t merge_interval() const { return merge_interval_; }
  // Merges the replicas if they differ now, and compares them if `compares` and check_agreement ask for it:
  // throws UnverifiedError on every rank if they are not the same. Collective.
  void merge(bool compares = true);
  // Merges them without a comparison. Collective.
  void merge_replicas();
  // Describes a forward or backward to the strategy. `purpose` is WEFT_PASS_*.
  weft_pass pass(uint32_t purpose, uint32_t micro, size_t num_micros, bool synchronise) const;
  // How many updates this training made, and those that it resumes.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  // Whether the next update is compared with what the strategy publishes after it.
  bool checks_update() const { return checks_update_; }
  void set_checks_update(bool checks) { checks_update_ = checks; }
  void zero_gradients();
  int64_t zeroings() const { return zeroings_; }  // how often zero_gradients() was called
  // Returns, by parameter, which of them got a gradient since the last call, and forgets it. touch() takes
  // that back.
  std::vector<bool> take_touched();
  void touch(const std::vector<bool>& touched);

  // The factor by which every loss is multiplied before backward, so that fp16 gradients do not underflow.
  // The optimizer divides by it.
  double loss_scale() const { return loss_scale_; }
  // The factor of every loss: loss_scale() times the number of replicas that train on their own.
  double backward_scale() const { return loss_scale_ * mesh_.place(local_axes_).size; }
  void set_loss_scale(double scale) { loss_scale_ = scale; }

  // Takes storage and plan away from the model, which is then as before start(), so that another training can
  // use it. Returns the storage by parameter; rebind() gives it back and applies the plan again.
  std::vector<at::Tensor> unbind();
  void rebind(const std::vector<at::Tensor>& storage);

 private:
  void refuse_stages_of_buffers() const;
  void make_mesh();
  void apply_plan(const MakePlan& make_plan);
  void make_params();
  void make_units();
  void mark_recomputed();
  // Keeps the units that this rank runs, and their parameters (stages.cpp). Collective.
  void keep_stage();
  // Check what a strategy must do in describe_mesh, configure and publish (check_strategy.cpp).
  void require_one_answer(const char* what, const char* function,
                          const std::function<std::string()>& answer) const;
  void check_bound() const;
  void check_published();
  void check_ranges(const std::vector<Shard>& shards) const;
  // Asks the strategy for its merges (merge.cpp).
  void start_merging();
  void check_local_replicas(Origin origin);

  World world_;
  std::shared_ptr<nn::Model> model_;
  TrainingOptions options_;
  std::shared_ptr<ParameterSource> source_;
  Mesh mesh_;
  std::unique_ptr<parallel::AppliedPlan> plan_;
  bool divides_logits_ = false;
  std::vector<std::pair<Axes, std::unique_ptr<weft_comm>>> comms_;  // by the open axes of the group
  std::vector<std::unique_ptr<weft_param>> params_;
  std::vector<std::unique_ptr<weft_unit>> units_;
  std::vector<std::pair<std::string, at::Tensor>> buffers_;
  pipeline::StageDivision stages_;
  std::vector<weft_unit*> own_units_;
  std::vector<weft_param*> own_params_;
  SharedGradients shared_gradients_;
  std::set<Axes> divided_axes_;
  std::vector<std::array<int64_t, 3>> ranges_;  // of the published shards: parameter, begin, count
  int64_t zeroings_ = 0, updates_ = 0;
  bool checks_update_ = false;
  double loss_scale_ = 1;
  bool merges_ = false;   // whether replicas train on their own
  bool differs_ = false;  // they have, since the last merge
  Axes local_axes_ = 0;
  int64_t merge_interval_ = 1;          // in updates
  std::unique_ptr<Strategy> strategy_;  // the last member: destroyed before what it was bound to
};

}  // namespace weft

// The bindings as strategies hold them.
struct weft_training : weft::Bindings {
  using weft::Bindings::Bindings;
};
