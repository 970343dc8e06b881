#include "weft/shard_former.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apply/make_context.hpp"
#include "base/text.hpp"
#include "booster/sequence_mode.hpp"
#include "checkpoint/model_files.hpp"
#include "comm/agreement.hpp"
#include "comm/group.hpp"
#include "device/device.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"
#include "formula/decision.hpp"
#include "opening/model_plan.hpp"
#include "opening/model_snapshot.hpp"
#include "opening/model_state.hpp"
#include "optim/gradient_norm.hpp"
#include "training/initial_values.hpp"
#include "training/part.hpp"

namespace weft {

struct ShardedModel::Shared {
  Model model;
  Communicator ranks;  // the tensor-parallel group
  std::unique_ptr<parallel::AppliedPlan> plan;
  std::vector<std::unique_ptr<weft_param>> params;

  // Counts elements that several ranks hold on the first of them.
  std::vector<Shard> shards() const {
    std::vector<Shard> all;
    for (const auto& param : params) {
      for (const auto& [run, counted] : counted_runs(*param, 0, param->count())) {
        const auto part = [run = run](const at::Tensor& all) {
          return all.detach().view(-1).narrow(0, run.begin, run.count);
        };
        Shard shard;
        shard.param = param.get();
        shard.begin = run.begin;
        shard.count = run.count;
        shard.value = part(param->tensor);
        if (const at::Tensor& gradient = param->tensor.grad(); gradient.defined())
          shard.gradient = part(gradient);
        shard.partition_axes = param->partition_axes;
        shard.counted = counted && (param->partition_axes != 0 || ranks.rank() == 0);
        shard.counted_count = shard.counted ? shard.count : 0;
        all.push_back(std::move(shard));
      }
    }
    return all;
  }
};

namespace {

Communicator or_alone(const Communicator& ranks) {
  return ranks ? ranks : Communicator(comm::make_group(nullptr, "one rank", {0}, 0));
}

plan::ParallelSizes sizes_of(const ShardConfig& config) {
  if (config.make_vocab_size_divisible_by < 1)
    fail(WEFT_INVALID_ARGUMENT, "make_vocab_size_divisible_by is {}, must be at least 1",
         config.make_vocab_size_divisible_by);
  if (config.inner_ring_size < 0)
    fail(WEFT_INVALID_ARGUMENT, "inner_ring_size is {}, must be positive, or 0 for the whole group",
         config.inner_ring_size);
  plan::ParallelSizes sizes;
  sizes.tensor = static_cast<uint32_t>(config.tensor_parallel_group.size());
  sizes.fused_normalization = config.enable_fused_normalization;
  sizes.flash_attention = config.enable_flash_attention;
  sizes.jit_fused = config.enable_jit_fused;
  sizes.parallel_output = config.parallel_output;
  sizes.vocabulary_multiple = config.make_vocab_size_divisible_by;
  set_sequence_mode(
      {config.enable_sequence_parallelism, config.sequence_parallelism_mode,
       config.sequence_parallel_group.size(), config.inner_ring_size, config.enable_sequence_overlap},
      sizes);
  return sizes;
}

// Sets the default generators, from which dropout draws, to those of the first rank.
void take_generators_of_first(const Communicator& ranks) {
  const at::Tensor state = device::random_state();
  ranks.broadcast(state, 0, true).wait();
  device::set_random_state(state);
}

// Runs `action` on the ranks of both groups, which form a grid. All of them throw if one does.
void on_grid(const ShardConfig& config, const std::function<void()>& action) {
  on_every_rank(config.sequence_parallel_group, [&] { on_every_rank(config.tensor_parallel_group, action); });
}

at::Tensor mean_loss(const nn::Model& model, const State& last, const Batch& batch,
                     const std::vector<nn::LossCount>& counts) {
  at::Tensor mean;
  const std::vector<nn::LossTerm> terms = model.loss(last, batch);
  for (size_t t = 0; t < terms.size(); ++t) {
    if (!(counts[t].count > 0))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: no label of \"{}\" counts in this batch: the mean over none is undefined",
           model.architecture(), terms[t].name);
    const at::Tensor term = terms[t].sum * (terms[t].weight / counts[t].count);
    mean = mean.defined() ? mean + term : term;
  }
  return mean;
}

}  // namespace

nn::Model& ShardedModel::module() const {
  return shared_->model.module();
}

void ShardedModel::train() const {
  module().train(true);
}
void ShardedModel::eval() const {
  module().train(false);
}

std::vector<at::Tensor> ShardedModel::parameters() const {
  std::vector<at::Tensor> trained;
  for (const auto& param : shared_->params)
    if (!param->frozen) trained.push_back(param->tensor);
  return trained;
}

State ShardedModel::operator()(const Batch& batch) const {
  nn::Model& model = module();
  const std::vector<nn::LossCount> counts = model.counts(batch);
  State state = model.input(batch);
  const auto context = parallel::make_context(model, batch, shared_->plan.get());
  uint64_t index = 0;
  for (nn::Unit* unit : model.units()) {
    const nn::RunningUnit running(*context, index++);
    unit->forward(state);
  }
  const nn::RunningUnit running(*context, index);
  State outputs = model.outputs(state);
  at::Tensor loss = counts.empty() ? at::Tensor() : mean_loss(model, state, batch, counts);
  const at::Tensor auxiliary =
      parallel::weighted_mean(context->take_losses(), *context, shared_->plan->times_counted());
  if (auxiliary.defined()) {
    outputs.set("aux_loss", auxiliary);
    if (loss.defined()) loss = loss + auxiliary;
  }
  if (loss.defined()) outputs.set("loss", loss);
  return outputs;
}

double ShardedModel::clip_grad_by_norm(double max_norm, double norm_type) const {
  optim::check_clipping(max_norm, norm_type);
  const std::vector<Shard> shards = shared_->shards();
  const at::Tensor part = at::tensor({optim::counted_norm_part(shards, norm_type)}, at::kDouble);
  shared_->ranks.all_reduce(part, std::isinf(norm_type) ? ReduceOp::kMax : ReduceOp::kSum, true).wait();
  const double norm = kernels::norm_of(device::value_of<double>(part), norm_type);
  optim::scale_gradients(shards, kernels::clip_factor(norm, max_norm));
  return norm;
}

void ShardedModel::save(const std::string& path, const SaveOptions& options) const {
  if (options.background)
    fail(WEFT_UNIMPLEMENTED, "save {}: a divided model is not saved in the background; a Booster's job is",
         path);
  ModelSnapshot(shared_->model, options, "", checkpoint::held_values(shared_->shards()))
      .save(path, shared_->ranks);
}

ShardFormer::ShardFormer(ShardConfig config) : config_(std::move(config)) {
  config_.tensor_parallel_group = or_alone(config_.tensor_parallel_group);
  config_.sequence_parallel_group = or_alone(config_.sequence_parallel_group);
  sizes_of(config_);
}

namespace {

void bind_values(const std::vector<std::unique_ptr<weft_param>>& params, const InitialValues& initial) {
  const at::NoGradGuard no_grad;
  for (const auto& param : params) {
    const at::Tensor value = at::empty(param->local, device::current().options(param->tensor.scalar_type()));
    initial.read(*param, 0, param->count(), value.view(-1));
    bind_storage(*param, value);
  }
}

}  // namespace

ShardedModel ShardFormer::optimize(const Model& model) const {
  Model::Shared& opened = model.shared();
  const plan::ParallelSizes sizes = sizes_of(config_);
  plan::Plan plan;
  nlohmann::json facts;
  std::shared_ptr<ParameterSource> source;
  on_grid(config_, [&] {
    if (opened.training != nullptr || opened.divided)
      fail(WEFT_FAILED_PRECONDITION, "{} is {} already; open it again", model.architecture(),
           opened.divided ? "divided" : "boosted");
    std::string policy;
    plan = make_plan(model.module(), sizes, config_.custom_policy, &policy);
    if (!opened.weights.empty())
      source = checkpoint::weight_source(opened.weights, "", model.module(), opened.missing,
                                         config_.tensor_parallel_group.rank() == 0, opened.new_head);
    facts = {{"model library", opened.library},
             {"architecture", model.architecture()},
             {"config.json", nlohmann::json::parse(model.config().dump())},
             {"weights", opened.weights.empty() ? "initial values" : "a checkpoint"},
             {"precision", opened.precision},
             {"seed", config_.seed},
             {"shard policy", policy},
             {"plan", plan.digest}};
  });
  on_every_rank(config_.sequence_parallel_group,
                [&] { require_agreement(config_.tensor_parallel_group, facts); });
  on_grid(config_, [&] { require_agreement(config_.sequence_parallel_group, facts); });
  take_generators_of_first(config_.tensor_parallel_group);
  auto shared = std::make_shared<ShardedModel::Shared>();
  shared->model = model;
  shared->ranks = config_.tensor_parallel_group;
  shared->plan = std::make_unique<parallel::AppliedPlan>(model.module(), plan, config_.tensor_parallel_group,
                                                         config_.sequence_parallel_group);
  shared->params = list_params(model.module());
  const Communicator& tensor = shared->ranks;
  keep_parts(shared->params, *shared->plan, [&](Axes axes) {
    if (!is_within(axes, Mesh::tensor()))
      fail(WEFT_UNIMPLEMENTED, "ShardFormer has a tensor axis alone, but the plan of {} splits over others",
           plan.architecture);
    return Mesh::Place{static_cast<uint32_t>(tensor.rank()), static_cast<uint32_t>(tensor.size())};
  });
  try {
    on_grid(config_, [&] {
      bind_values(shared->params, {model.module(), shared->params, config_.seed, source.get()});
      place_buffers(model.module(), source.get());
    });
  } catch (...) {  // leave the model as it was
    for (const auto& param : shared->params) unbind_storage(*param);
    shared->plan->lift();
    throw;
  }
  opened.divided = true;
  return ShardedModel(std::move(shared));
}

}  // namespace weft
