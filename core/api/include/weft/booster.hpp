// Booster: trains a model under a strategy that is found by name at run time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "weft/booster_options.hpp"
#include "weft/data/dataset.hpp"
#include "weft/job.hpp"
#include "weft/model.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"
#include "weft/state.hpp"
#include "weft/world.hpp"

namespace weft {

// How weights are written.
struct SaveOptions {
  bool shard = false;             // several files with an index
  std::string prefix;             // of file names: model.PREFIX.safetensors
  int64_t size_per_shard = 1024;  // MB
  bool use_safetensors = true;    // false: pytorch_model.bin
  // Copies what this rank holds, returns, and writes in a thread. The next save or load, finish_saving() and
  // the Booster's destructor wait for it. All but the destructor throw what failed there; it logs the failure
  // and makes the process end with status 1.
  bool background = false;
  // Of save_training: also saves a training that an UnverifiedError has ended, and compares nothing. What is
  // saved may be wrong; give it another name.
  bool unverified = false;
};

// What Booster::execute_pipeline did.
struct PipelineResult {
  // The loss over all data-parallel ranks, the same on every rank: that of a training step, or of
  // Job::evaluate. Empty unless it was asked for.
  std::optional<double> loss;
  // The outputs of this rank's samples, without graph, as Job::forward returns them. Empty unless they were
  // asked for.
  State outputs;
};

// Puts models under one strategy, and saves and loads them. A copy is the same booster.
class Booster {
 public:
  // Checks the options and takes the device. Throws NOT_FOUND if no library provides it, FAILED_PRECONDITION
  // with what the process lacks to use it. The strategy's plugin is found and loaded by boost().
  explicit Booster(BoosterOptions options, World world = launch());
  const BoosterOptions& options() const;
  // The precision in which models must be opened: Model::open(path, "", booster.precision()).
  const std::string& precision() const;
  const World& world() const;
  // This rank's number among the ranks that train on different samples, and how many those are. The ranks of
  // a tensor-parallel group share their samples and this number.
  int64_t data_rank() const;
  int64_t data_size() const;

  // Makes the strategy, gives the parameters memory and values, and returns the job. What cannot be honoured
  // is an error on every rank alike, and the model can then be boosted again. Collective.
  Job boost(Model model, optim::Optimizer optimizer = {}, Criterion criterion = {}, data::Loader data = {},
            optim::Scheduler schedule = {});

  // Moves a job from the strategy it runs under to this Booster's, in memory. Values, optimizer states,
  // averaged weights, schedule, data position, random generators, accumulation and clipping are kept;
  // `job.data` becomes another loader where the data-parallel ranks change. Call it between steps, without
  // pending gradients. Needs memory for both layouts and one tensor. Throws FAILED_PRECONDITION where
  // Job::average_weights would. Collective. If it throws, the job goes on under its old strategy.
  void take_over(Job& job);

  // Runs forward and backward of this rank's part of a batch through the pipeline stages; the strategy's
  // options split it into micro-batches. Without stages it does the same in one piece, so a loop with this
  // function trains under every strategy. The loss is that of `criterion`, or the model's own without one.
  // Gradients add up until optimizer.zero_grad(), and stay local while a NoSync lives. Every stage passes the
  // same batch.
  //
  //   for (const Batch& batch : job.data) {
  //     const PipelineResult result = booster.execute_pipeline(batch, job.model, {}, job.optimizer);
  //     job.optimizer.step();
  //     job.optimizer.zero_grad();
  //   }
  //
  // Without an optimizer, or while gradients are disabled (at::NoGradGuard), it runs forward alone, in
  // evaluation mode. Throws INVALID_ARGUMENT for the optimizer of another model and for a batch without
  // labels if the loss needs some. Every rank passes arguments of the same kind. Collective.
  PipelineResult execute_pipeline(const Batch& batch, const Model& model, const Criterion& criterion = {},
                                  const optim::Optimizer& optimizer = {}, bool return_loss = true,
                                  bool return_outputs = false);
  // Runs backward of a loss of the caller's own. Gradients are averaged over the data-parallel ranks. Refused
  // under pipeline stages, where execute_pipeline takes its place.
  void backward(const at::Tensor& loss, optim::Optimizer& optimizer);
  // Keeps gradients local while it lives: they accumulate and are not communicated.
  class NoSync {
   public:
    explicit NoSync(Model model);
    ~NoSync();
    NoSync(const NoSync&) = delete;

   private:
    Model model_;
    bool before_ = true;
  };
  NoSync no_sync(const Model& model) { return NoSync(model); }

  // Returns a loader of this rank's part of every batch. `batch_size` counts samples of one data-parallel
  // rank.
  data::Loader prepare_dataloader(std::shared_ptr<data::Dataset> dataset, int64_t batch_size,
                                  bool shuffle = false, int64_t seed = 1024, bool drop_last = false,
                                  bool pin_memory = false, int64_t num_workers = 0,
                                  std::shared_ptr<data::Sampler> sampler = nullptr);

  // Checkpoints. These functions are collective. A folder appears only when it is complete. The master writes
  // models and optimizers, one whole tensor at a time; all ranks write a training state together, into a file
  // system that they share. What one strategy saves on some ranks any other loads on any number of ranks.
  void save_model(const Model& model, const std::string& path, const SaveOptions& options = {});
  // Loads weights. With `strict`, missing and unexpected entries are errors that name them; shapes must
  // always match.
  void load_model(Model& model, const std::string& path, bool strict = true);
  void save_optimizer(const optim::Optimizer& optimizer, const std::string& path,
                      const SaveOptions& options = {});
  void load_optimizer(optim::Optimizer& optimizer, const std::string& path);
  void save_lr_scheduler(const optim::Scheduler& scheduler, const std::string& path);
  void load_lr_scheduler(optim::Scheduler& scheduler, const std::string& path);
  // Saves and loads a model folder with a training_state/: optimizer, schedule, random generators, data
  // position and step.
  void save_training(const Job& job, const std::string& folder, const SaveOptions& options = {});
  void load_training(Job& job, const std::string& folder);
  // Waits for a save in the background and throws what failed there.
  void finish_saving();
  // Returns how long the last finished save took on this rank, or 0 before the first one. A job that is
  // stopped by a signal needs about this long after its current step.
  std::chrono::nanoseconds last_save_time() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
