// Job: a model with what trains it, and the training step.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/metric.hpp"
#include "weft/model.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"
#include "weft/state.hpp"
#include "weft/unverified.hpp"

namespace weft {

class WeightAverage;

// What one training step did.
struct StepResult {
  int64_t index = 0;  // of the step, from 1
  double loss = 0;    // mean over every counted label of the global batch, with auxiliary losses
  // The part of `loss` that layers added, such as the balance of a mixture of experts. Empty if no layer did.
  std::optional<double> auxiliary_loss;
  std::optional<double> grad_norm;
  double lr = 0;
  // False: Job::guards_updates left out the update, because the loss or a gradient is nan or inf.
  bool finite = true;
  // A parameter of this rank with such a gradient, the one closest to the loss; empty if there is none.
  std::string nonfinite_gradient;
  // False: a gradient overflowed, no label of the global batch counts and the loss is 0, or
  // StepMoments::before_update said so. Then neither parameters nor schedule moved.
  bool updated = true;
  std::optional<double> loss_scale;  // by which this step's loss was multiplied, with fp16
  double seconds = 0;
  double tokens_per_second = 0;  // over all ranks
  bool stop = false;             // some rank called Job::request_stop
  bool checked = false;          // what the strategy did was compared with what it must do
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
  std::vector<Metric> metrics;  // of accuracy and others, of models that have them; none with a criterion
  // Returns the measures that follow from the metrics, "accuracy" and others. An undefined one is NaN.
  std::vector<Measure> measures() const;
  double loss() const;    // the sum of the terms, each divided by its own count; NaN if nothing counts
  double labels() const;  // how many labels the term with most of them counted
  // Returns the losses under the names of the outputs of Hugging Face's class.
  std::vector<std::pair<std::string, double>> outputs() const;
  Evaluation& operator+=(const Evaluation& other);
};

// A loss of the caller's own, computed from the model's outputs: a mean over the samples of `batch`. Training
// averages it over micro-batches, each weighted by its samples, and over data-parallel ranks. It is refused
// where ranks hold parts of the logits (tp_size or sp_size with a vocabulary head), unless the strategy's
// option parallel_output is false.
using Criterion = std::function<at::Tensor(const State& outputs, const Batch& batch)>;

// What is called within a step. Each may be empty.
struct StepMoments {
  // Before the first unit that this rank runs of a micro-batch, and after its last backward on this rank.
  std::function<void(uint32_t micro_batch)> before_micro_batch, after_micro_batch;
  // The gradients are complete: those of all micro-batches, as the strategy keeps them. Returns whether to
  // update; otherwise they are forgotten, on every rank alike.
  std::function<bool()> before_update;
  std::function<void()> after_update;  // unless the update was left out
};

// What Booster::boost returns. Only the model is always there.
struct Job {
  Model model;
  optim::Optimizer optimizer;
  Criterion criterion;
  data::Loader data;
  optim::Scheduler schedule;
  int64_t accumulate = 1;    // micro-batches per train_step, as in BoosterOptions
  double max_grad_norm = 0;  // clipping in train_step; 0: none
  // Leaves out the update of a step whose loss or gradients are not finite, so that the parameters stay as
  // they were. The host decides, for which it waits for the device. With fp16 the loss scale does it already
  // for gradients.
  bool guards_updates = false;
  // Averages the weights: after each update average = decay * average + (1 - decay) * weights, in fp32, from
  // the weights as they are now; a load replaces both. Saves have the averaged model in the folder ema/, and
  // a Trainer evaluates it, too. Throws INVALID_ARGUMENT unless 0 < decay < 1, FAILED_PRECONDITION under a
  // strategy whose replicas train on their own. Takes memory for the average of what this rank publishes.
  void average_weights(double decay);
  // Exchanges the weights with their average; twice gives the same bits. Throws FAILED_PRECONDITION without
  // an average. Collective.
  void swap_average();
  std::shared_ptr<WeightAverage> average;  // null without one

  // What was asked for, as the file of `weft train --config`: save_training writes it to
  // training_state/job.yaml. Empty: nothing is written.
  std::string configuration;
  // What the hooks of a Trainer keep, by their names. save_training writes it to training_state/, and
  // load_training reads it.
  std::map<std::string, std::string> hook_states;

  // Runs forward, loss, backward, communication, clipping, update and schedule. `batch` is this rank's part
  // of the global batch. Throws UnverifiedError if a comparison of BoosterOptions::check_agreement fails.
  // Collective, as are the functions below.
  StepResult train_step(const Batch& batch, const StepMoments& moments = {});
  // Makes the next train_step compare what the strategy does with what it must do, as the first two do;
  // before a save, for instance. With a check_agreement of -1 it does not. Call it on every rank.
  void check_next_step();
  // Runs forward, loss and backward of one of several batches and returns the loss, the mean over this
  // batch's labels on all ranks. Without `synchronise` gradients stay local (no_sync).
  double accumulate_gradients(const Batch& batch, bool synchronise = true);
  // Returns the loss of a batch over all data-parallel ranks, without gradients: the criterion's, or the
  // model's own. The model is in evaluation mode meanwhile, here and in the two functions below.
  Evaluation evaluate(const Batch& batch);
  // Returns the outputs of this rank's samples under their Hugging Face names; with parallel_output this
  // rank's part of the logits. With pipeline stages the ranks that run the last unit have them, and the
  // others get none.
  State forward(const Batch& batch);
  // Runs forward of this batch and returns "tensor NAME of unit NAME" for the first one that is not finite on
  // this rank; empty if all are finite. With guards_updates it is the forward of the last train_step, whose
  // batch this must be: with its micro-batches, in training mode and with the same random numbers, without
  // changing buffers. Otherwise it runs in evaluation mode.
  std::string find_nonfinite(const Batch& batch);
  // Returns both from one forward; without labels the evaluation has no terms.
  std::pair<State, Evaluation> forward_and_evaluate(const Batch& batch);

  // Asks every rank to stop: the result of the next step has `stop` set on all of them. May be called from
  // any thread or signal handler.
  void request_stop() { *stop_requested = true; }
  std::shared_ptr<std::atomic<bool>> stop_requested = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace weft
