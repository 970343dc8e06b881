// Booster::execute_pipeline, and what it has in common with Job.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "base/text.hpp"
#include "booster/running.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "opening/model_state.hpp"
#include "optim/optimizer_state.hpp"
#include "training/micro_batches.hpp"
#include "weft/booster.hpp"

namespace weft {

Training& training_of(const Model& model) {
  if (model.shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{} is not boosted", model.architecture());
  return *model.shared().training;
}

std::vector<Batch> micro_batches_of(const Batch& batch, int64_t accumulate, Bindings& bindings) {
  return bindings.strategy().guarded([&] {
    const PipelineOptions& options = bindings.options().host.pipeline;
    if (!bindings.mesh().splits(Mesh::samples())) return micro_batches(batch, accumulate, options);
    return micro_batches(batch, accumulate, options, bindings.comm(Mesh::samples())->communicator);
  });
}

double global_loss(const Bindings& bindings, Training::StepLoss loss) {
  loss.reading.read();
  const at::Tensor total = at::tensor({loss.total()}, at::kDouble);
  if (bindings.world().size() > 1)
    bindings.world().communicator().all_reduce(total, ReduceOp::kSum, true).wait();
  return device::value_of<double>(total);
}

void refuse_criterion(const std::string& loss, uint32_t tensor_size, uint32_t sequence_size) {
  fail(WEFT_INVALID_ARGUMENT,
       "{} is given, but with tp_size {} and sp_size {} each rank has only a part of the logits; set the "
       "strategy's option parallel_output false, or leave the {} out: the model's own loss needs no whole "
       "logits",
       loss, tensor_size, sequence_size, loss.starts_with("a ") ? "criterion" : "objective");
}

void refuse_two_losses(const std::string& objective) {
  fail(WEFT_INVALID_ARGUMENT,
       "a criterion is given, but the objective {} already takes the place of the model's loss; give one of "
       "them",
       objective);
}

namespace {

PipelineResult forward_only(const Batch& batch, const Model& model, const Criterion& criterion,
                            bool return_loss, bool return_outputs) {
  Job job;
  job.model = model;
  job.criterion = criterion;
  PipelineResult result;
  if (!return_loss) {
    State outputs = job.forward(batch);
    if (return_outputs) result.outputs = std::move(outputs);
    return result;
  }
  auto [outputs, evaluation] = job.forward_and_evaluate(batch);
  if (evaluation.terms.empty())
    fail(
        WEFT_INVALID_ARGUMENT,
        "execute_pipeline: the batch has no labels of {}; give its labels or a criterion, or set return_loss "
        "to false",
        model.architecture());
  result.loss = evaluation.loss();
  if (return_outputs) result.outputs = std::move(outputs);
  return result;
}

}  // namespace

PipelineResult Booster::execute_pipeline(const Batch& batch, const Model& model, const Criterion& criterion,
                                         const optim::Optimizer& optimizer, bool return_loss,
                                         bool return_outputs) {
  const Activity activity("execute_pipeline");
  Training& training = training_of(model);
  Bindings& bindings = training.bindings();
  if (optimizer && &optimizer.shared().boosted("execute_pipeline") != &bindings)
    fail(WEFT_INVALID_ARGUMENT,
         "execute_pipeline: the optimizer is that of another model; pass the one with which {} was boosted",
         model.architecture());
  if (criterion && bindings.options().loss) refuse_two_losses(bindings.options().loss.name());
  if (criterion && bindings.divides_logits())
    refuse_criterion("a criterion", bindings.mesh().place(Mesh::tensor()).size,
                     bindings.mesh().sequence_size());
  batch.samples();
  if (!optimizer || !at::GradMode::is_enabled())
    return forward_only(batch, model, criterion, return_loss, return_outputs);
  if (!bindings.model().is_training()) bindings.model().train();
  PipelineResult result;
  Training::StepLoss loss = training.run_step(micro_batches_of(batch, 1, bindings), criterion,
                                              return_outputs ? &result.outputs : nullptr);
  if (return_loss) result.loss = global_loss(bindings, std::move(loss));
  return result;
}

}  // namespace weft
