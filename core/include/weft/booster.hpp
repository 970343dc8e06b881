// Booster: trains a model under a strategy that is found by name at run time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/data/dataset.hpp"
#include "weft/metric.hpp"
#include "weft/model.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"
#include "weft/state.hpp"
#include "weft/world.hpp"

namespace weft {

// What a job is boosted with.
struct BoosterOptions {
  std::string strategy;        // by name; empty: the default plugin; "none": no strategy, one rank
  std::string options = "{}";  // the strategy's own options, as JSON
  // "fp32", "fp64", "bf16" or "fp16"; half precision has fp32 master weights. Empty: the strategy's option
  // `precision`, or fp32.
  std::string precision;
  // For strategies without a precision option of their own. "bf16" and "fp16" keep parameters in fp32 and run
  // the operations that gain from it in half precision (autocast); fp16 scales the loss dynamically.
  // "fp16_naive" has parameters in fp16. JSON gives options: {"name": "fp16", "init_scale": 1024}.
  std::string mixed_precision;
  std::string recompute = "off";  // activation recomputation: "off", "all", or a number of units
  int64_t accumulate = 1;         // micro-batches per train_step; pipeline stages split each of them further
  double max_grad_norm = 0;       // 0: no clipping in train_step
  int64_t seed = 42;              // of initial values and dropout
  // 0: the first two calls of train_step compare sums of gradients over ranks, the second one and each save
  // parameters; N: also every N-th call, both; -1: none does. A call that finds gradients pending compares
  // nothing; boost, load and take_over always compare parameters. A difference is an error on every rank.
  int64_t check_agreement = 0;

  // Reads {"strategy": ..., "options": {...}, ...} from JSON text, or from a file. Throws INVALID_ARGUMENT
  // for an unknown key.
  static BoosterOptions parse(const std::string& json);
  static BoosterOptions load(const std::string& path);
};

// What one training step did.
struct StepResult {
  int64_t index = 0;  // of the step, from 1
  double loss = 0;    // mean over every counted label of the global batch, with auxiliary losses
  // The part of `loss` that layers added, such as the balance of a mixture of experts. Empty if no layer did.
  std::optional<double> auxiliary_loss;
  std::optional<double> grad_norm;
  double lr = 0;
  bool updated = true;               // false: a gradient overflowed, so neither parameters nor schedule moved
  std::optional<double> loss_scale;  // by which this step's loss was multiplied, with fp16
  double seconds = 0;
  double tokens_per_second = 0;  // over all ranks
  bool stop = false;             // some rank called Job::request_stop
};

// The loss over batches and ranks, as sums and counts. The loss of a criterion is averaged over samples.
struct Evaluation {
  // One term of the loss.
  struct Term {
    std::string name;
    double weight = 1, sum = 0, count = 0;
    std::string output = "loss";  // the output of Hugging Face's class that the term is part of
  };
  std::vector<Term> terms;
  std::vector<Metric> metrics;  // accuracy and others, of models that have them; none with a criterion
  double loss() const;          // the sum of the terms, each divided by its own count; NaN if nothing counts
  double labels() const;        // how many labels the term with most of them counted
  // Returns the losses under the names of the outputs of Hugging Face's class.
  std::vector<std::pair<std::string, double>> outputs() const;
  Evaluation& operator+=(const Evaluation& other);
};

// A loss of the caller's own, computed from the model's outputs: a mean over the samples of `batch`. Training
// averages it over micro-batches, each weighted by its samples, and over data-parallel ranks. It is refused
// where ranks hold parts of the logits (tp_size or sp_size with a vocabulary head), unless the strategy's
// option parallel_output is false.
using Criterion = std::function<at::Tensor(const State& outputs, const Batch& batch)>;

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
};

// What boost() returns: a model with what trains it. Only the model is always there.
struct Job {
  Model model;
  optim::Optimizer optimizer;
  Criterion criterion;
  data::Loader data;
  optim::Scheduler schedule;
  int64_t accumulate = 1;    // micro-batches per train_step
  double max_grad_norm = 0;  // clipping in train_step; 0: none

  // Runs forward, loss, backward, communication, clipping, update and schedule. `batch` is this rank's part
  // of the global batch. Collective, as are the functions below.
  StepResult train_step(const Batch& batch);
  // Runs forward, loss and backward of one of several batches and returns the loss, the mean over this
  // batch's labels on all ranks. Without `synchronise` gradients stay local (no_sync).
  double accumulate_gradients(const Batch& batch, bool synchronise = true);
  // Returns the loss of a batch over all data-parallel ranks, without gradients: the criterion's, or the
  // model's own. The model is in evaluation mode meanwhile, here and in the two functions below.
  Evaluation evaluate(const Batch& batch);
  // Returns the outputs of this rank's samples under their Hugging Face names; with parallel_output this
  // rank's part of the logits. With pipeline stages the ranks of the last stage have them, and the others get
  // none.
  State forward(const Batch& batch);
  // Returns both from one forward; without labels the evaluation has no terms.
  std::pair<State, Evaluation> forward_and_evaluate(const Batch& batch);

  // Asks every rank to stop: the result of the next step has `stop` set on all of them. May be called from
  // any thread or signal handler.
  void request_stop() { *stop_requested = true; }
  std::shared_ptr<std::atomic<bool>> stop_requested = std::make_shared<std::atomic<bool>>(false);
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
  // Checks the options. The strategy's plugin is found and loaded by boost().
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
  // schedule, data position, random generators, accumulation and clipping are kept; `job.data` becomes
  // another loader where the data-parallel ranks change. Call it between steps, without pending gradients.
  // Needs memory for both layouts and one tensor. Collective. If it throws, the job goes on under its old
  // strategy.
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

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
