#include "training/bindings.hpp"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <ATen/ops/_foreach_copy.h>

#include <algorithm>
#include <numeric>

#include "apply/apply.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "install/batch_statistics.hpp"
#include "memory/transfers.hpp"
#include "training/initial_values.hpp"
#include "training/part.hpp"
#include "training/stages.hpp"
#include "weft/nn/batch_norm.hpp"

weft_param::~weft_param() {
  if (!bound) return;
  tensor.mutable_grad().reset();
  torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
}

at::ScalarType weft_param::master_dtype() const {
  return frozen ? tensor.scalar_type() : bindings->master_dtype(tensor.scalar_type());
}

int64_t weft_param::count() const {
  return here ? std::accumulate(local.begin(), local.end(), int64_t{1}, std::multiplies<>()) : 0;
}

namespace weft {

namespace {

// Calls the strategy's `gradient_ready` after backward has accumulated a gradient.
class ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(weft_param* param) : param_(param) {}
  void operator()(const torch::autograd::Variable& variable) override {
    if (!variable.grad().defined()) return;  // backward passed here without a gradient: it is not used
    param_->touched = true;
    if (param_->across_stages) return;  // Hooks::backward calls it with the sum over the stages
    Strategy& strategy = param_->bindings->strategy();
    strategy.hook<&weft_strategy_api::gradient_ready>(param_);
  }

 private:
  weft_param* param_;
};

}  // namespace

Bindings::Bindings(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
                   std::string strategy_name, const std::vector<weft_kv>& strategy_options,
                   TrainingOptions options, std::shared_ptr<ParameterSource> source)
    : world_(std::move(world)),
      model_(std::move(model)),
      options_(std::move(options)),
      source_(std::move(source)) {
  make_units();
  make_params();
  strategy_ = std::make_unique<Strategy>(
      api, strategy_arguments(strategy_name, strategy_options.data(), strategy_options.size(), world_.size(),
                              world_.rank(), options_.precision));
}

Bindings::~Bindings() {
  try {
    memory::finish_transfers();  // they use memory of the strategy
  } catch (const std::exception&) {
    // The device has failed, and has no work left that could use it.
  }
}

void Bindings::start(const MakePlan& make_plan) {
  try {
    refuse_stages_of_buffers();
    place_buffers(*model_, source_.get());
    make_mesh();
    stages_ = divide_model(*model_, options_.host.pipeline);
    mark_recomputed();
    apply_plan(make_plan);
    parallel::synchronise_statistics(*model_, comm(Mesh::samples())->communicator);
    keep_stage();
    strategy_->call<&weft_strategy_api::configure>(static_cast<weft_training*>(this));
    check_bound();
    start_merging();
    check_published();
  } catch (...) {
    unbind();
    throw;
  }
}

void Bindings::refuse_stages_of_buffers() const {
  const auto kept = nn::kept_buffers(*model_);
  if (kept.empty() || options_.host.pipeline.size < 2) return;
  fail(
      WEFT_UNIMPLEMENTED,
      "{}: {} pipeline stages were asked for, but {} has buffers that are saved, such as {}, and only one of "
      "the stages would change each; use one stage",
      strategy_name(), options_.host.pipeline.size, model_->architecture(), kept.front().first);
}

void Bindings::make_mesh() {
  weft_mesh described;
  require_one_answer("the mesh", "describe_mesh", [&] {
    described = described_mesh(strategy_->api(), strategy_->handle(), strategy_name(),
                               static_cast<uint32_t>(world_.size()), options_.host.plan_flags.tensor,
                               options_.host.pipeline.size);
    return fmt::format("{}", fmt::join(described.size, " x "));
  });
  mesh_ = Mesh(described, world_, strategy_name(), options_.host.plan_flags.sequence,
               options_.host.pipeline.order);
  // Make all groups now, in one order on every rank, so that comm() is not collective.
  for (const Axes axes : mesh_.groups()) {
    comms_.emplace_back(axes, std::make_unique<weft_comm>());
    comms_.back().second->communicator = mesh_.along(world_, axes);
  }
}

weft_comm* Bindings::comm(Axes axes) {
  for (const auto& [made, comm] : comms_)
    if (made == mesh_.open_axes(axes)) return comm.get();
  return nullptr;
}

void Bindings::apply_plan(const MakePlan& make_plan) {
  if (!make_plan) {
    if (mesh_.splits(Mesh::tensor()))
      throw Error(WEFT_FAILED_PRECONDITION,
                  strategy_name() + ": a tensor axis needs a plan of " + model_->architecture());
    return;
  }
  const plan::Plan plan = make_plan(mesh_);
  plan_ = std::make_unique<parallel::AppliedPlan>(*model_, plan, comm(Mesh::tensor())->communicator,
                                                  mesh_.sequence_ranks(comm(Mesh::samples())->communicator));
  divides_logits_ = plan::divides_logits(plan);
  keep_parts(params_, *plan_, [this](Axes axes) { return mesh_.place(axes); });
}

std::vector<at::Tensor> Bindings::unbind() {
  std::vector<at::Tensor> storage;
  for (const auto& param : params_) {
    storage.push_back(param->bound ? param->tensor.variable_data() : at::Tensor());
    if (param->bound) unbind_storage(*param);
  }
  if (plan_) plan_->lift();
  return storage;
}

void Bindings::rebind(const std::vector<at::Tensor>& storage) {
  if (plan_) plan_->put_back();
  for (const auto& param : params_)
    if (storage[param->index].defined()) bind(*param, storage[param->index]);
}

void Bindings::make_units() {
  const std::vector<nn::Unit*> units = model_->units();
  if (units.empty()) throw Error(WEFT_INVALID_ARGUMENT, model_->architecture() + " has no units");
  for (nn::Unit* unit : units) {
    auto made = std::make_unique<weft_unit>();
    made->bindings = this;
    made->index = static_cast<uint32_t>(units_.size());
    made->unit = unit;
    units_.push_back(std::move(made));
  }
}

void Bindings::mark_recomputed() {
  const std::vector<bool> recomputed =
      recomputed_units(*model_, options_.booster.recompute, options_.host.pipeline);
  for (const auto& unit : units_) unit->recompute = recomputed[unit->index];
}

void Bindings::make_params() {
  params_ = list_params(*model_);
  for (const auto& param : params_) {
    param->bindings = this;
    param->gradient_axes = Mesh::samples();
  }
  const auto param_of = [&](const at::Tensor& tensor) {
    return std::find_if(params_.begin(), params_.end(),
                        [&](const auto& p) { return p->tensor.is_same(tensor); });
  };
  for (const auto& unit : units_) {
    for (torch::nn::Module* module : unit->unit->modules()) {
      for (const at::Tensor& tensor : module->parameters(true)) {
        const auto found = param_of(tensor);
        if (found == params_.end())
          throw Error(WEFT_INVALID_ARGUMENT, "unit " + unit->unit->name() +
                                                 " uses a parameter that is not registered in " +
                                                 model_->architecture());
        if (std::find(unit->params.begin(), unit->params.end(), found->get()) != unit->params.end()) continue;
        unit->params.push_back(found->get());
        (*found)->units.push_back(unit->index);
      }
    }
  }
  for (const auto& param : params_)
    if (param->units.empty())
      throw Error(WEFT_INVALID_ARGUMENT, "parameter " + param->name + " of " + model_->architecture() +
                                             " belongs to no unit: a unit must say that it uses its module");
  for (const auto& item : model_->named_buffers(true)) buffers_.emplace_back(item.key(), item.value());
}

weft_param* Bindings::find_param(std::string_view name) const {
  for (const nn::Tie& tie : model_->ties())
    if (tie.name == name) return find_param(tie.canonical);
  for (const auto& param : params_)
    if (param->name == name) return param.get();
  return nullptr;
}

at::ScalarType Bindings::dtype() const {
  return params_.front()->tensor.scalar_type();
}

at::ScalarType Bindings::master_dtype() const {
  return master_dtype(dtype());
}

at::ScalarType Bindings::master_dtype(at::ScalarType working) const {
  return options_.host.master_weights && at::isReducedFloatingType(working) ? at::kFloat : working;
}

void Bindings::read(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values) const {
  const at::NoGradGuard no_grad;
  InitialValues(*model_, params_, options_.booster.seed, source_.get()).read(param, begin, count, values);
}

void Bindings::bind(weft_param& param, const at::Tensor& storage) {
  if (!storage.defined() || !device::current().holds(storage))
    fail(WEFT_INVALID_ARGUMENT, "storage for {} must be a tensor on {}", param.name,
         device::current().name());
  const at::Tensor value = storage.variable_data();
  if (param.bound) fail(WEFT_FAILED_PRECONDITION, "parameter {} has its storage already", param.name);
  if (value.sizes() != at::IntArrayRef(param.local) || value.scalar_type() != param.tensor.scalar_type())
    fail(WEFT_INVALID_ARGUMENT, "storage for {} has shape [{}] of {}, must be [{}] of {}", param.name,
         fmt::join(value.sizes(), ", "), c10::toString(value.scalar_type()), fmt::join(param.local, ", "),
         c10::toString(param.tensor.scalar_type()));
  bind_storage(param, value);
  if (!param.frozen)
    torch::autograd::impl::set_post_acc_grad_hooks(param.tensor, std::make_unique<ReadyHook>(&param));
  param.bound = true;
}

void Bindings::values_changed(uint32_t reason) {
  if (strategy_->api().values_changed == nullptr) return;
  strategy_->guarded([&] { strategy_->call<&weft_strategy_api::values_changed>(reason); });
}

void Bindings::values_written(uint32_t reason, const std::vector<Shard>& shards) {
  std::vector<at::Tensor> values, working;
  for (const Shard& shard : shards) {
    if (!shard.working.defined()) continue;
    values.push_back(shard.value);
    working.push_back(shard.working);
  }
  const at::NoGradGuard no_grad;
  if (!working.empty()) at::_foreach_copy_(working, values);
  check_written(shards);
  values_changed(reason);
}

weft_pass Bindings::pass(uint32_t purpose, uint32_t micro, size_t num_micros, bool synchronise) const {
  return {.struct_size = sizeof(weft_pass),
          .step = updates_,
          .purpose = purpose,
          .micro = micro,
          .num_micros = static_cast<uint32_t>(num_micros),
          .synchronise = synchronise,
          .recomputes = 0,
          .reserved = 0};
}

void Bindings::zero_gradients() {
  ++zeroings_;
  strategy_->guarded([&] { strategy_->call<&weft_strategy_api::zero_gradients>(); });
  shared_gradients_.zero();
  take_touched();  // forget which parameters those gradients belonged to
}

std::vector<bool> Bindings::take_touched() {
  std::vector<bool> touched;
  for (const auto& param : params_) touched.push_back(std::exchange(param->touched, false));
  return touched;
}

void Bindings::touch(const std::vector<bool>& touched) {
  for (const auto& param : params_) param->touched = param->touched || touched[param->index];
}

}  // namespace weft
