// Booster: puts a model, an optimizer and data under a strategy that is found by name at run time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/data/dataset.hpp"
#include "weft/model.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"
#include "weft/state.hpp"
#include "weft/world.hpp"

namespace weft {

struct BoosterOptions {
  std::string strategy;        // by name; empty: the default plugin; "none": no strategy, one rank
  std::string options = "{}";  // the strategy's own, JSON
  // fp32, fp64, bf16, fp16 (half precision with fp32 master weights); empty: the strategy's option of this
  // name, or fp32
  std::string precision;
  // For strategies without such an option. "bf16", "fp16": fp32 parameters, operations that gain from it in
  // half precision (autocast), with fp16 a dynamic scale of the loss; "fp16_naive": parameters in fp16. Or
  // JSON with options: {"name": "fp16", "init_scale": 1024}.
  std::string mixed_precision;
  std::string recompute = "off";  // "off", "all", or a number of units
  int64_t accumulate = 1;         // micro-batches per train_step
  double max_grad_norm = 0;       // 0: no clipping in train_step
  int64_t seed = 42;              // of initial values and dropout

  // {"strategy": ..., "options": {...}, ...}; unknown keys are errors. From JSON text, or from a file.
  static BoosterOptions parse(const std::string& json);
  static BoosterOptions load(const std::string& path);
};

struct StepResult {
  int64_t index = 0;  // of the step, from 1
  double loss = 0;    // mean over every counted label of the global batch
  std::optional<double> grad_norm;
  double lr = 0;
  bool updated = true;  // false: a gradient overflowed, so nothing was updated, the schedule neither
  std::optional<double> loss_scale;  // that this step's loss was multiplied by, with fp16
  double seconds = 0;
  double tokens_per_second = 0;  // over all ranks
  bool stop = false;             // some rank called Job::request_stop
};

// Sums of the loss over batches and ranks; a criterion's own loss counts by samples.
struct Evaluation {
  struct Term {
    std::string name;
    double weight = 1, sum = 0, count = 0;
    std::string output = "loss";  // of Hugging Face's class that the term is part of
  };
  std::vector<Term> terms;
  double loss() const;    // each term divided by its own count; NaN if nothing counts
  double labels() const;  // of the term with most
  std::vector<std::pair<std::string, double>> outputs()
      const;  // the losses that Hugging Face's class returns
  Evaluation& operator+=(const Evaluation& other);
};

// The caller's own loss of the model's outputs. Where ranks divide the logits (tp_size or sp_size, a
// vocabulary's head) boost refuses it unless the strategy's option parallel_output is false.
using Criterion = std::function<at::Tensor(const State& outputs, const Batch& batch)>;

struct SaveOptions {
  bool shard = false;
  std::string prefix;
  int64_t size_per_shard = 1024;  // MB
  bool use_safetensors = true;
  // Returns when a copy of this rank's part has been taken and writes in a thread. The next save or load, the
  // Booster's end and finish_saving() wait for it; what failed there is thrown by the former and the latter.
  bool background = false;
};

// What boost returns. Any part may be absent but the model.
struct Job {
  Model model;
  optim::Optimizer optimizer;
  Criterion criterion;
  data::Loader data;
  optim::Scheduler schedule;
  int64_t accumulate = 1;    // micro-batches per train_step
  double max_grad_norm = 0;  // clipping in train_step; 0: none

  // Forward, loss, backward, synchronisation, update and schedule. `batch` is this rank's part of the global
  // batch.
  StepResult train_step(const Batch& batch);
  // Forward, loss and backward alone, of a batch that is one of several: the loss is the mean over this
  // batch's labels on all ranks. Without `synchronise` gradients stay local (no_sync).
  double accumulate_gradients(const Batch& batch, bool synchronise = true);
  // The loss of a batch without gradients, over all data-parallel ranks: the criterion's, or the model's own.
  // Evaluation and forward put the model into evaluation mode while they run.
  Evaluation evaluate(const Batch& batch);
  // The outputs in evaluation mode under their Hugging Face names, of this rank's samples; with
  // parallel_output this rank's part of the logits.
  State forward(const Batch& batch);
  // Both in one forward; without labels the evaluation has no terms.
  std::pair<State, Evaluation> forward_and_evaluate(const Batch& batch);

  // Asks every rank to stop: the next step's result says so on all of them alike. From any thread or signal
  // handler.
  void request_stop() { *stop_requested = true; }
  std::shared_ptr<std::atomic<bool>> stop_requested = std::make_shared<std::atomic<bool>>(false);
};

class Booster {
 public:
  explicit Booster(BoosterOptions options, World world = launch());
  const BoosterOptions& options() const;
  // What models are opened in: Model::open(path, "", booster.precision()).
  const std::string& precision() const;
  const World& world() const;
  // This rank's place among the ranks that train on different samples; those of one tensor-parallel group
  // share theirs.
  int64_t data_rank() const;
  int64_t data_size() const;

  Job boost(Model model, optim::Optimizer optimizer = {}, Criterion criterion = {}, data::Loader data = {},
            optim::Scheduler schedule = {});

  // Moves a job from the strategy it runs under to this Booster's, without the disk: values, optimizer state
  // and schedule, data position (`job.data` is another loader where the data-parallel ranks are others),
  // random generators, accumulation and clipping go on as they are. Between steps, without pending gradients.
  // In memory: both layouts and one tensor. Collective. If it throws, the job goes on under its old strategy.
  void take_over(Job& job);

  // Backward of a loss of the caller's own, averaged over the data-parallel ranks.
  void backward(const at::Tensor& loss, optim::Optimizer& optimizer);
  // While it lives gradients are accumulated locally and not synchronised.
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

  // `batch_size`: samples of one data-parallel rank.
  data::Loader prepare_dataloader(std::shared_ptr<data::Dataset> dataset, int64_t batch_size,
                                  bool shuffle = false, int64_t seed = 1024, bool drop_last = false,
                                  bool pin_memory = false, int64_t num_workers = 0,
                                  std::shared_ptr<data::Sampler> sampler = nullptr);

  // Checkpoints. Every rank calls. A folder appears only when it is complete. The master writes models and
  // optimizers, one tensor at a time, whatever the other ranks hold; a training state is written by all ranks
  // at once, into a file system that they share. What is saved under one strategy and number of ranks loads
  // under any other.
  void save_model(const Model& model, const std::string& path, const SaveOptions& options = {});
  // Throws naming missing and unexpected entries if `strict`.
  void load_model(Model& model, const std::string& path, bool strict = true);
  void save_optimizer(const optim::Optimizer& optimizer, const std::string& path,
                      const SaveOptions& options = {});
  void load_optimizer(optim::Optimizer& optimizer, const std::string& path);
  void save_lr_scheduler(const optim::Scheduler& scheduler, const std::string& path);
  void load_lr_scheduler(optim::Scheduler& scheduler, const std::string& path);
  // A model folder with training_state/ in it: optimizer, schedule, random generators, data position, step.
  void save_training(const Job& job, const std::string& folder, const SaveOptions& options = {});
  void load_training(Job& job, const std::string& folder);
  // Waits for a save in the background and throws what went wrong there.
  void finish_saving();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
