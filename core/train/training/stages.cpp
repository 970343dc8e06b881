#include "training/stages.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "autograd/recompute.hpp"
#include "base/text.hpp"
#include "schedule/make.hpp"
#include "training/bindings.hpp"
#include "training/part.hpp"
#include "weft/nn/layers.hpp"

namespace weft {

namespace {

using Tensors = std::set<const c10::TensorImpl*>;

// Adds the elements of the parameters of `module` that are not in `seen`, without those of embeddings.
double count_elements(const torch::nn::Module& module, Tensors& seen) {
  double elements = 0;
  if (dynamic_cast<const nn::Embedding*>(&module) == nullptr)
    for (const at::Tensor& parameter : module.parameters(/*recurse=*/false))
      if (seen.insert(parameter.unsafeGetTensorImpl()).second)
        elements += static_cast<double>(parameter.numel());
  for (const auto& child : module.children()) elements += count_elements(*child, seen);
  return elements;
}

// Returns the stages that have a unit which uses the parameter, ascending.
std::vector<uint32_t> holders_of(const weft_param& param, const pipeline::StageDivision& division,
                                 const pipeline::Schedule& placement) {
  std::set<uint32_t> holders;
  for (const uint32_t unit : param.units) holders.insert(placement.stage_of(division.stage_of_unit(unit)));
  return {holders.begin(), holders.end()};
}

std::vector<double> unit_costs(nn::Model& model) {
  std::vector<double> costs;
  for (const nn::Unit* unit : model.units()) {
    Tensors seen;
    double& cost = costs.emplace_back(1);  // no unit is free
    for (const torch::nn::Module* module : unit->modules()) cost += count_elements(*module, seen);
  }
  return costs;
}

std::vector<bool> find_layers(nn::Model& model) {
  std::vector<bool> is_layer;
  for (const nn::Unit* unit : model.units()) is_layer.push_back(nn::is_layer(*unit));
  return is_layer;
}

// Throws unless a list has an entry for each virtual stage.
void require_entries(const char* option, size_t entries, const PipelineOptions& options) {
  if (entries == options.virtual_stages()) return;
  fail(WEFT_INVALID_ARGUMENT, "{} has {} entries, but pp_size {}{} needs {}: one for each stage{}", option,
       entries, options.size,
       options.chunks > 1 ? fmt::format(" with {} model chunks on each stage", options.chunks) : "",
       options.virtual_stages(),
       options.chunks > 1 ? " and chunk, in the order in which a forward runs them" : "");
}

}  // namespace

pipeline::StageDivision divide_model(nn::Model& model, const PipelineOptions& options) {
  if (options.layers_per_stage) {
    require_entries("num_layers_per_stage", options.layers_per_stage->size(), options);
    return pipeline::divide_layers(find_layers(model), *options.layers_per_stage);
  }
  const std::vector<double> costs = unit_costs(model);
  if (options.virtual_stages() > costs.size())
    fail(WEFT_INVALID_ARGUMENT,
         "{} has {} units, but pp_size {}{} needs {}: a stage runs one unit at least{}; set pp_size to {} or "
         "less",
         model.architecture(), costs.size(), options.size,
         options.chunks > 1 ? fmt::format(" with {} model chunks on each stage", options.chunks) : "",
         options.virtual_stages(), options.chunks > 1 ? " in each chunk" : "", costs.size() / options.chunks);
  return pipeline::divide_units(costs, options.virtual_stages());
}

std::vector<bool> recomputed_units(nn::Model& model, const std::string& recompute,
                                   const PipelineOptions& options) {
  const std::vector<bool> is_layer = find_layers(model);
  std::vector<bool> recomputed(is_layer.size());
  std::fill_n(recomputed.begin(), num_recomputed(recompute, recomputed.size()), true);
  if (!options.recomputed_part && !options.recomputed_layers) return recomputed;
  if (recompute != "off")
    fail(WEFT_INVALID_ARGUMENT,
         "recompute is \"{}\", but gradient_checkpoint_config says which layers are recomputed; give one of "
         "them",
         recompute);
  const pipeline::StageDivision division = divide_model(model, options);
  if (options.recomputed_layers)
    require_entries("num_ckpt_layers_per_stage", options.recomputed_layers->size(), options);
  for (uint32_t v = 0; v < division.virtual_stages(); ++v) {
    std::vector<uint32_t> layers;
    for (uint32_t unit = division.begin(v); unit < division.end(v); ++unit)
      if (is_layer[unit]) layers.push_back(unit);
    // 0.29 of 100 layers are 29, though the product is a little less.
    const double part = options.recomputed_part.value_or(0) * static_cast<double>(layers.size()) + 1e-9;
    const size_t count =
        options.recomputed_layers ? (*options.recomputed_layers)[v] : static_cast<size_t>(part);
    if (count > layers.size())
      fail(WEFT_INVALID_ARGUMENT,
           "num_ckpt_layers_per_stage is [{}], but the stage of its entry {} has {} layers only",
           fmt::join(*options.recomputed_layers, ", "), v, layers.size());
    for (size_t i = 0; i < count; ++i) recomputed[layers[i]] = true;
  }
  return recomputed;
}

pipeline::Costs stage_costs(nn::Model& model, const PipelineOptions& options) {
  const pipeline::StageDivision division = divide_model(model, options);
  const std::vector<double> units = unit_costs(model);
  const double average = std::accumulate(units.begin(), units.end(), 0.0) / division.virtual_stages();
  pipeline::Costs costs;
  for (uint32_t v = 0; v < division.virtual_stages(); ++v) {
    const double cost =
        std::accumulate(units.begin() + division.begin(v), units.begin() + division.end(v), 0.0) / average;
    costs.virtual_stages.push_back({cost, cost, cost});
  }
  return costs;
}

pipeline::Schedule stage_schedule(const PipelineOptions& options, int64_t micro_batches) {
  TORCH_INTERNAL_ASSERT(options.schedule != nullptr || !options.schedule_file, "the schedule was not read");
  if (options.schedule != nullptr) {
    if (options.schedule->micro_batches == micro_batches) return *options.schedule;
    fail(WEFT_INVALID_ARGUMENT,
         "schedule_file {} is the schedule of a whole step with {} micro-batches, but this step has {}; set "
         "the job's accumulate to 1, and write a schedule with as many micro-batches as a step shall have",
         *options.schedule_file, options.schedule->micro_batches, micro_batches);
  }
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();  // far more than a schedule may have
  return pipeline::make_schedule({.style = options.style,
                                  .stages = options.size,
                                  .micro_batches = static_cast<uint32_t>(std::min(micro_batches, kMost)),
                                  .chunks = options.chunks});
}

pipeline::Schedule placement_of(const PipelineOptions& options) {
  return {.stages = options.size,
          .chunks = options.chunks,
          .placement = pipeline::find_style(options.style).placement};
}

void Bindings::keep_stage() {
  const pipeline::Schedule placement = placement_of(options_.host.pipeline);
  const Mesh::Place own = placement.stages > 1 ? mesh_.place(Mesh::stages()) : Mesh::Place{0, 1};
  std::map<std::vector<uint32_t>, Communicator> communicators;  // of the stages that share parameters
  for (const auto& param : params_) {
    const std::vector<uint32_t> holders = holders_of(*param, stages_, placement);
    if (own.size > 1) keep_on_stages(*param, holders, own);
    if (param->here) {
      param->place = static_cast<uint32_t>(own_params_.size());
      own_params_.push_back(param.get());
    }
    if (holders.size() == 1 || param->frozen) continue;
    const auto [made, is_new] = communicators.try_emplace(holders);
    if (is_new) made->second = comm(Mesh::stages())->communicator.subset(holders);
    if (param->here) shared_gradients_.add(*param, made->second, comm(param->gradient_axes)->communicator);
  }
  for (const auto& unit : units_) {
    unit->here = placement.stage_of(stages_.stage_of_unit(unit->index)) == own.rank;
    if (!unit->here) continue;
    unit->place = static_cast<uint32_t>(own_units_.size());
    own_units_.push_back(unit.get());
  }
}

}  // namespace weft
