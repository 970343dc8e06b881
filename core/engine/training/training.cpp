#include "training/training.hpp"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "autograd/recompute.hpp"
#include "autograd/saved_tensor_hooks.hpp"
#include "base/text.hpp"
#include "error_sink.hpp"
#include "training/forward_record.hpp"
#include "training/part.hpp"
#include "weft/torch/dtypes.hpp"

weft_param::~weft_param() {
  if (!bound) return;
  tensor.mutable_grad().reset();
  torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
}

at::ScalarType weft_param::master_dtype() const {
  return frozen ? tensor.scalar_type() : training->master_dtype();
}

int64_t weft_param::count() const {
  return std::accumulate(local.begin(), local.end(), int64_t{1}, std::multiplies<>());
}

namespace weft {

namespace {

constexpr uint32_t kDataAxes = 1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA;

}  // namespace

Training::Training(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
                   std::string strategy_name, const std::vector<weft_kv>& strategy_options,
                   TrainingOptions options, std::shared_ptr<ParameterSource> source,
                   const MakePlan& make_plan)
    : world_(std::move(world)),
      model_(std::move(model)),
      api_(api),
      strategy_name_(std::move(strategy_name)),
      options_(std::move(options)),
      source_(std::move(source)) {
  static const bool installed = (SavedTensorHooks::install(), true);
  (void)installed;
  make_units();
  make_params();
  const weft_strategy_arguments arguments = strategy_arguments(
      strategy_options.data(), strategy_options.size(), world_.size(), world_.rank(), options_.precision);
  ErrorSink error;
  error.check(api_->create(&arguments, &strategy_, error), strategy_name_);
  try {
    make_mesh();
    apply_plan(make_plan);
    error.check(api_->configure(strategy_, static_cast<weft_training*>(this), error), strategy_name_);
    check_bound();
    check_published();
  } catch (...) {
    for (const auto& param : params_)
      if (param->bound) unbind_storage(*param);
    lift_plan();
    api_->destroy(strategy_);
    throw;
  }
}

Training::~Training() {
  for (const std::weak_ptr<ForwardRecord>& pending : pending_)
    if (const auto open = pending.lock()) open->abandon();
  api_->destroy(strategy_);
}

void Training::make_mesh() {
  weft_mesh described{};
  require_one_mesh([&] {
    described = described_mesh(*api_, strategy_, strategy_name_, world_, options_.tensor_size);
    return fmt::format("{}", fmt::join(described.size, " x "));
  });
  mesh_ = Mesh(described, world_, strategy_name_, options_.sequence_size);
  // All groups now, in one order on every rank: asking for one later is no collective, whichever rank asks
  // first.
  const uint32_t open = mesh_.open_axes();
  for (uint32_t axes = 0; axes <= open; ++axes) {
    if ((axes & ~open) != 0) continue;
    comms_.emplace_back(axes, std::make_unique<weft_comm>());
    comms_.back().second->communicator = mesh_.along(world_, axes);
  }
}

weft_comm* Training::comm(uint32_t axes) {
  for (const auto& [made, comm] : comms_)
    if (made == (axes & mesh_.open_axes())) return comm.get();
  return nullptr;  // before the mesh is known
}

void Training::apply_plan(const MakePlan& make_plan) {
  if (!make_plan) {
    if (mesh_.size(WEFT_AXIS_TENSOR) > 1)
      throw Error(WEFT_FAILED_PRECONDITION,
                  strategy_name_ + ": a tensor axis needs a plan of " + model_->architecture());
    return;
  }
  constexpr uint32_t kTensor = 1u << WEFT_AXIS_TENSOR;
  const plan::Plan plan = make_plan(mesh_);
  plan_ = std::make_unique<parallel::AppliedPlan>(*model_, plan, comm(kTensor)->communicator,
                                                  mesh_.sequence_ranks(comm(kDataAxes)->communicator));
  keep_parts(params_, *plan_);
}

void Training::lift_plan() {
  if (plan_) plan_->lift();
}
void Training::put_plan_back() {
  if (plan_) plan_->put_back();
}

void Training::make_units() {
  const std::vector<nn::Unit*> units = model_->units();
  if (units.empty()) throw Error(WEFT_INVALID_ARGUMENT, model_->architecture() + " has no units");
  const size_t recomputed = num_recomputed(options_.recompute, units.size());
  for (nn::Unit* unit : units) {
    auto made = std::make_unique<weft_unit>();
    made->training = this;
    made->index = static_cast<uint32_t>(units_.size());
    made->unit = unit;
    made->recompute = made->index < recomputed;
    units_.push_back(std::move(made));
  }
}

void Training::make_params() {
  params_ = list_params(*model_);
  for (const auto& param : params_) {
    param->training = this;
    param->gradient_axes = kDataAxes;
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

weft_param* Training::find_param(std::string_view name) const {
  for (const nn::Tie& tie : model_->ties())
    if (tie.name == name) return find_param(tie.canonical);
  for (const auto& param : params_)
    if (param->name == name) return param.get();
  return nullptr;
}

at::ScalarType Training::dtype() const {
  return params_.front()->tensor.scalar_type();
}

at::ScalarType Training::master_dtype() const {
  return options_.master_weights && at::isReducedFloatingType(dtype()) ? at::kFloat : dtype();
}

void Training::check_alive() const {
  if (!failure_.empty())
    throw Error(WEFT_FAILED_PRECONDITION,
                strategy_name_ + ": an earlier step failed (" + failure_ +
                    "), so the state of this training is undefined; start from a checkpoint");
}

// Runs one hook of the strategy; a NULL slot is not subscribed.
#define WEFT_HOOK(slot, argument)                                        \
  do {                                                                   \
    if (api_->slot == nullptr) break;                                    \
    disturbed_ = true;                                                   \
    ErrorSink error;                                                     \
    error.check(api_->slot(strategy_, argument, error), strategy_name_); \
  } while (0)

void Training::fire_before_forward(weft_unit& unit) {
  WEFT_HOOK(before_forward, &unit);
}
void Training::fire_after_forward(weft_unit& unit) {
  WEFT_HOOK(after_forward, &unit);
}
void Training::fire_before_backward(weft_unit& unit) {
  WEFT_HOOK(before_backward, &unit);
}
void Training::fire_after_backward(weft_unit& unit) {
  WEFT_HOOK(after_backward, &unit);
}
void Training::fire_gradient_ready(weft_param& param) {
  param.touched = true;
  WEFT_HOOK(gradient_ready, &param);
}
void Training::fire_begin_backward(const weft_backward_info& info) {
  disturbed_ = true;  // gradients change from here on
  WEFT_HOOK(begin_backward, &info);
}
void Training::fire_end_backward(const weft_backward_info& info) {
  WEFT_HOOK(end_backward, &info);
}

#undef WEFT_HOOK

void Training::values_changed() {
  if (api_->values_changed == nullptr) return;
  guarded_step([&] {
    disturbed_ = true;
    ErrorSink error;
    error.check(api_->values_changed(strategy_, error), strategy_name_);
  });
}

void Training::zero_gradients() {
  guarded_step([&] {
    disturbed_ = true;
    ErrorSink error;
    error.check(api_->zero_gradients(strategy_, error), strategy_name_);
  });
  take_touched();  // what those gradients had touched
}

std::vector<bool> Training::take_touched() {
  std::vector<bool> touched;
  for (const auto& param : params_) touched.push_back(std::exchange(param->touched, false));
  return touched;
}

}  // namespace weft
