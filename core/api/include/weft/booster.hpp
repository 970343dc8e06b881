// Booster: trains a model under a strategy that is found by name at run time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "weft/data/dataset.hpp"
#include "weft/job.hpp"
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
  // Where the model is trained: "cpu", or a device that an installed library provides (plugins of kind
  // "device"). A process uses one device; the first Booster chooses it, and another one is refused
  // (FAILED_PRECONDITION). Ranks of one machine that use "cuda" get the devices in the order of their local
  // ranks.
  std::string device = "cpu";
  // true: a training has the same bits at every run, and after it is resumed, on the same number of ranks,
  // with the same kind of device and the same number of threads. Turns on libtorch's deterministic mode,
  // which stays on in this process. An operation that has no deterministic implementation on the device is an
  // error of the step that computes it. False leaves libtorch's mode as it is.
  bool deterministic = false;
  // true: matrix products of fp32 values round them to TF32, which has 10 bits of mantissa; GPUs compute it
  // several times as fast. Refused where it would have no effect: with another precision (INVALID_ARGUMENT),
  // and on a device without TF32, such as the CPU (UNIMPLEMENTED). All Boosters of a process have the same
  // value; the first one chooses it (FAILED_PRECONDITION). False leaves libtorch's setting as it is.
  bool allow_tf32 = false;
  // true: forward and backward of a micro-batch of train_step are captured as a CUDA graph, which the host
  // replays by one call; for models whose steps are short. Needs a strategy that keeps parameters in place
  // (WEFT_STRATEGY_KEEPS_STORAGE) without tensor, sequence and pipeline axes, batches of one shape, no
  // recomputation, and layers in which the host reads nothing and draws nothing; refused otherwise
  // (UNIMPLEMENTED or FAILED_PRECONDITION), when it is known. Gradients stay allocated. boost() makes another
  // stream of libtorch the current one of its thread.
  bool enable_cuda_graph = false;

  // Reads {"strategy": ..., "options": {...}, ...} from JSON text, or from a file. Throws INVALID_ARGUMENT
  // for an unknown key.
  static BoosterOptions parse(const std::string& json);
  static BoosterOptions load(const std::string& path);
};

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
  // Returns how long the last finished save took on this rank, or 0 before the first one. A job that is
  // stopped by a signal needs about this long after its current step.
  std::chrono::nanoseconds last_save_time() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace weft
