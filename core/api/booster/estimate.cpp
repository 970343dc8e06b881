#include "booster/estimate.hpp"

#include <ATen/ops/empty.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apply/describe_model.hpp"
#include "apply/make_context.hpp"
#include "autograd/saved_tensor_hooks.hpp"
#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "booster/chosen_strategy.hpp"
#include "comm/group.hpp"
#include "opening/model_plan.hpp"
#include "opening/model_state.hpp"
#include "optim/rules.hpp"
#include "plugins.hpp"
#include "schedule/simulate.hpp"
#include "training/part.hpp"
#include "training/stages.hpp"

namespace weft {

namespace {

using Storages = std::set<const c10::StorageImpl*>;

// Counts the bytes of each storage that operations save for backward once, without those in `known`. Keeps
// the tensors, so that no other storage gets the same address.
class Count final : public torch::autograd::SavedVariableHooks {
 public:
  Count(Storages* known, std::vector<at::Tensor>* saved, int64_t* bytes)
      : known_(known), saved_(saved), bytes_(bytes) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = tensor.detach();
    if (!known_->insert(tensor.storage().unsafeGetStorageImpl()).second) return;
    saved_->push_back(tensor_);
    *bytes_ += static_cast<int64_t>(tensor.storage().nbytes());
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  Storages* known_;
  std::vector<at::Tensor>* saved_;
  int64_t* bytes_;
  at::Tensor tensor_;
};

State on_meta(const State& state) {
  State moved;
  for (const auto& [name, tensor] : state) moved.set(name, tensor.defined() ? tensor.to(at::kMeta) : tensor);
  return moved;
}

int64_t bytes_of(const State& state) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : state)
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// A unit that a stage runs, and in which of the stage's chunks.
struct OwnUnit {
  uint32_t unit, chunk;
};

// Returns what a stage runs, in the order of the model.
std::vector<OwnUnit> units_of(nn::Model& model, const PipelineOptions& options, uint32_t stage) {
  const pipeline::StageDivision division = divide_model(model, options);
  const pipeline::Schedule placement = placement_of(options);
  std::vector<OwnUnit> own;
  for (uint32_t chunk = 0; chunk < options.chunks; ++chunk) {
    const uint32_t v = placement.virtual_stage(stage, chunk);
    for (uint32_t unit = division.begin(v); unit < division.end(v); ++unit) own.push_back({unit, chunk});
  }
  return own;
}

std::vector<weft_param_shape> param_shapes(nn::Model& model, const std::vector<OwnUnit>& own) {
  const std::vector<nn::Unit*> units = model.units();
  std::map<const c10::TensorImpl*, std::pair<uint32_t, uint32_t>>
      users;  // the first and the last unit of the stage that use it
  for (uint32_t u = 0; u < own.size(); ++u)
    for (const torch::nn::Module* module : units[own[u].unit]->modules())
      for (const at::Tensor& parameter : module->parameters(true))
        users.try_emplace(parameter.unsafeGetTensorImpl(), u, u).first->second.second = u;
  std::vector<weft_param_shape> shapes;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& item : model.named_parameters(true)) {
    const at::Tensor& parameter = item.value();
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    const auto used = users.find(parameter.unsafeGetTensorImpl());
    if (used == users.end()) continue;
    const auto [first, last] = used->second;
    shapes.push_back({.struct_size = sizeof(weft_param_shape),
                      .elements = parameter.numel(),
                      .first_unit = first,
                      .last_unit = last,
                      .frozen = model.frozen(item.key()) || !parameter.requires_grad(),
                      .reserved = 0});
  }
  return shapes;
}

// Gives the model, while this lives, the shapes that it has on the first rank of the tensor and sequence
// axes.
class DividedModel {
 public:
  DividedModel(nn::Model& model, const HostOptions& host) {
    const plan::ParallelSizes& sizes = host.plan_flags;
    std::string identity;
    const plan::Plan plan = make_plan(model, sizes, host.custom_policy, &identity);
    has_plain_attention_ = plan::transforms(plan, "plain_attention");
    const bool changes_nothing = sizes.tensor == 1 && sizes.sequence == 1 && plan.transformed.empty();
    if (changes_nothing && plan::unsupported(plan).empty()) return;
    plan_.emplace(model, plan, comm::absent_ranks(sizes.tensor), comm::absent_ranks(sizes.sequence));
    params_ = list_params(model);
    keep_parts(params_, *plan_, [&](Axes) { return Mesh::Place{0, sizes.tensor}; });
    for (const auto& param : params_) bind_storage(*param, at::empty(param->local, param->tensor.options()));
  }
  ~DividedModel() {
    for (const auto& param : params_) unbind_storage(*param);
    if (plan_) plan_->lift();
  }
  DividedModel(const DividedModel&) = delete;
  const parallel::AppliedPlan* plan() const { return plan_ ? &*plan_ : nullptr; }
  bool has_plain_attention() const { return has_plain_attention_; }

 private:
  std::vector<std::unique_ptr<weft_param>> params_;
  std::optional<parallel::AppliedPlan> plan_;
  bool has_plain_attention_ = false;
};

// Returns the paths, as plans have them, of the modules of the units that are recomputed.
std::set<std::string> recomputed_modules(nn::Model& model, const std::string& recompute,
                                         const PipelineOptions& options) {
  const std::vector<nn::Unit*> units = model.units();
  std::set<const torch::nn::Module*> modules;
  const std::vector<bool> recomputed = recomputed_units(model, recompute, options);
  for (size_t u = 0; u < units.size(); ++u) {
    if (!recomputed[u]) continue;
    for (const torch::nn::Module* module : units[u]->modules()) {
      modules.insert(module);
      for (const auto& child : module->modules(/*include_self=*/false)) modules.insert(child.get());
    }
  }
  std::set<std::string> paths;
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    if (modules.contains(item.value().get()))
      paths.insert(plan::planned_name(item.key(), model.base_prefix()));
  return paths;
}

}  // namespace

uint32_t num_stages(const BoosterOptions& booster) {
  return choose_strategy(booster).host.pipeline.size;
}

namespace {

Storages storages_of_parameters(const nn::Model& model) {
  Storages storages;
  for (const at::Tensor& parameter : model.parameters())
    storages.insert(parameter.storage().unsafeGetStorageImpl());
  return storages;
}

}  // namespace

std::optional<int64_t> activation_bytes(const Model& model, const BoosterOptions& booster,
                                        const MicroBatchShape& shape, uint32_t stage) {
  nn::Model& module = model.module();
  HostOptions host = choose_strategy(booster).host;
  read_schedule(host.pipeline, booster.accumulate);
  const std::vector<OwnUnit> own = units_of(module, host.pipeline, stage);
  const std::vector<bool> recomputed = recomputed_units(module, booster.recompute, host.pipeline);
  const int64_t micro_batches = host.pipeline.num_micro_batches(shape.batch_size);
  const int64_t largest = std::min(
      shape.batch_size, host.pipeline.micro_batch_size.value_or((shape.batch_size - 1) / micro_batches + 1));
  const DividedModel divided(module, host);
  if (divided.has_plain_attention())
    fail(WEFT_UNIMPLEMENTED,
         "there is no estimate with enable_flash_attention false, or a policy that forbids the fused form of "
         "attention: libtorch's formula cannot be run in shapes alone; leave it true");
  static const bool installed = (SavedTensorHooks::install(), true);
  (void)installed;
  const std::optional<Batch> batch = module.example(largest, shape.sequence_length);
  if (!batch) return std::nullopt;
  State state;
  try {
    state = on_meta(module.input(*batch));
  } catch (const Error&) {
    return std::nullopt;
  }
  Storages known = storages_of_parameters(module);
  std::vector<at::Tensor> saved;
  std::vector<State> kept;
  // Of one micro-batch, by chunk: what it keeps from forward to backward, and what a split backward may keep
  // between its halves.
  std::vector<int64_t> bytes(host.pipeline.chunks), between_halves(host.pipeline.chunks);
  int64_t recomputed_bytes = 0;
  const std::vector<nn::Unit*> units = module.units();
  at::AutoGradMode with_gradients(true);
  const bool was_training = module.is_training();
  module.train(false);  // because dropout would draw masks
  const auto context = parallel::make_context(module, *batch, divided.plan());
  auto next = own.begin();
  for (size_t u = 0; u <= own.back().unit; ++u) {
    int64_t of_unit = 0;
    const int64_t entering = bytes_of(state);
    {
      std::optional<SavedTensorHooks> hooks;
      if (u == next->unit) hooks.emplace([&] { return std::make_unique<Count>(&known, &saved, &of_unit); });
      const nn::RunningUnit running(*context, u);
      units[u]->forward(state);
    }
    if (u != next->unit) continue;
    // A recomputed unit keeps its inputs. The tensors of one recomputed unit exist at a time.
    if (recomputed[u]) recomputed_bytes = std::max(recomputed_bytes, of_unit);
    bytes[next->chunk] += recomputed[u] ? entering : of_unit;
    between_halves[next++->chunk] += of_unit;
    kept.push_back(state);
  }
  module.train(was_training);
  const bool has_outputs = own.back().unit + 1 == units.size();
  const pipeline::Schedule schedule = stage_schedule(host.pipeline, micro_batches);
  return pipeline::peak_live(schedule, stage, bytes, between_halves) + recomputed_bytes +
         (has_outputs ? bytes_of(state) : 0);
}

namespace {

// Throws the error with which the strategy refuses these stages when a job begins.
void check_stages(const ChosenStrategy& chosen, const weft_strategy_arguments& arguments, uint32_t tensor) {
  ErrorSink error;
  weft_strategy* strategy = nullptr;
  error.check(chosen.api->create(chosen.api, &arguments, &strategy, error), chosen.name);
  const auto destroy = c10::make_scope_exit([&] { chosen.api->destroy(strategy); });
  described_mesh(*chosen.api, strategy, chosen.name, arguments.world_size, tensor, chosen.host.pipeline.size);
}

}  // namespace

void check_ranks(const HostOptions& host, int64_t world_size) {
  const plan::ParallelSizes& sizes = host.plan_flags;
  if (world_size % (int64_t{sizes.tensor} * host.pipeline.size * sizes.sequence) != 0)
    fail(WEFT_INVALID_ARGUMENT, "tp_size {} x pp_size {} x sp_size {} must divide the {} ranks", sizes.tensor,
         host.pipeline.size, sizes.sequence, world_size);
}

std::optional<weft_job_estimate> estimate_job(const Model& model, const BoosterOptions& booster,
                                              int64_t world_size, uint32_t stage) {
  const ChosenStrategy chosen = choose_strategy(booster);
  if (chosen.host.autocast)
    fail(WEFT_UNIMPLEMENTED,
         "autocast (mixed_precision {}) cannot be estimated; leave it out: a job that fits without it also "
         "fits with it",
         booster.mixed_precision);
  const plan::ParallelSizes& sizes = chosen.host.plan_flags;
  const uint32_t stages = chosen.host.pipeline.size;
  check_ranks(chosen.host, world_size);
  const std::string precision = resolve_precision(booster);
  if (stages > 1)
    check_stages(chosen,
                 strategy_arguments(chosen.name, chosen.options.data(), chosen.options.size(), world_size, 0,
                                    precision),
                 sizes.tensor);
  if (chosen.api->estimate == nullptr) return std::nullopt;
  const std::vector<OwnUnit> own = units_of(model.module(), chosen.host.pipeline, stage);
  const DividedModel divided(model.module(), chosen.host);
  const std::vector<weft_param_shape> shapes = param_shapes(model.module(), own);
  std::vector<const weft_param_shape*> params;
  for (const weft_param_shape& of_param : shapes) params.push_back(&of_param);
  const at::ScalarType working = precision_dtype(precision);
  const bool masters = at::isReducedFloatingType(working) && chosen.host.master_weights;
  constexpr uint32_t kStatesOfAdam = 2;
  const auto size_of = [](at::ScalarType type) { return static_cast<uint32_t>(c10::elementSize(type)); };
  const weft_job_shape shape{sizeof(shape),
                             params.data(),
                             params.size(),
                             static_cast<uint32_t>(own.size()),
                             size_of(working),
                             size_of(masters ? at::kFloat : working),
                             kStatesOfAdam,
                             size_of(optim::computing_dtype(working)),
                             0};
  const weft_strategy_arguments arguments =
      strategy_arguments(chosen.name, chosen.options.data(), chosen.options.size(),
                         world_size / sizes.tensor / stages, 0, precision);
  weft_job_estimate estimate{};
  estimate.struct_size = sizeof(estimate);
  ErrorSink error;
  error.check(chosen.api->estimate(chosen.api, &arguments, &shape, &estimate, error), chosen.name);
  return estimate;
}

plan::SentBytes estimate_layers(const Model& model, const BoosterOptions& booster, const Batch& batch) {
  nn::Model& module = model.module();
  const HostOptions host = choose_strategy(booster).host;
  std::string identity;
  const plan::Plan plan = make_plan(module, host.plan_flags, host.custom_policy, &identity);
  plan::TrafficShape shape;
  for (const nn::SequenceLength& length : module.lengths(batch))
    shape.sequences.push_back({length.name, length.positions, length.rows});
  shape.element_size = static_cast<int64_t>(c10::elementSize(precision_dtype(resolve_precision(booster))));
  shape.recomputed = recomputed_modules(module, booster.recompute, host.pipeline);
  return plan::sent_bytes(plan, shape);
}

std::optional<plan::SentBytes> estimate_layers(const Model& model, const BoosterOptions& booster,
                                               const MicroBatchShape& shape) {
  const plan::ParallelSizes sizes = choose_strategy(booster).host.plan_flags;
  if (sizes.tensor == 1 && sizes.sequence == 1) return plan::SentBytes{};
  const std::optional<Batch> batch = model.module().example(shape.batch_size, shape.sequence_length);
  if (!batch || model.module().lengths(*batch).empty()) return std::nullopt;
  return estimate_layers(model, booster, *batch);
}

std::vector<std::string> strategy_names() {
  weft_str listing{};
  ErrorSink error;
  error.check(weft_runtime_list(plugin_runtime(), &listing, error));
  const nlohmann::json found = parse_json(view(listing), "the list of plugins");
  weft_text_destroy(listing);
  std::set<std::string> names;
  for (const nlohmann::json& plugin : found.at("plugins"))
    if (plugin.value("kind", "") == "strategy" && !plugin.contains("problem"))
      for (const nlohmann::json& name : plugin.at("provides")) names.insert(name.get<std::string>());
  return {names.begin(), names.end()};
}

}  // namespace weft
