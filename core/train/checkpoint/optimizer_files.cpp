#include "checkpoint/optimizer_files.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/shard_pieces.hpp"
#include "memory/pools.hpp"
#include "optim/rules.hpp"

namespace weft::checkpoint {

using nlohmann::json;

namespace {

constexpr int kVersion = 1;

// "h.0.ln_1.weight/exp_avg" apart.
std::pair<std::string, std::string> split_name(const std::string& entry) {
  const size_t slash = entry.rfind('/');
  if (slash == std::string::npos) return {"", entry};
  return {entry.substr(0, slash), entry.substr(slash + 1)};
}

// The states of `param` by the rule; none if it is not optimized.
std::vector<optim::StateInfo> states_of(const optim::Optimizer::Shared& shared,
                                        const std::vector<optim::Group>& groups, const weft_param& param) {
  const int group = shared.group_of[param.index];
  if (group < 0) return {};
  return shared.rule->states(groups[static_cast<size_t>(group)].options, param.shape);
}

json describe(const optim::Optimizer::Shared& shared) {
  json groups = json::array();
  for (const optim::Group& group : shared.groups)
    groups.push_back({{"parameters", group.parameters.names},
                      {"options", group.options},
                      {"initial_lr", group.initial_lr}});
  json steps = json::object();
  for (const auto& [index, state] : shared.parameters)
    steps[shared.training->params()[index]->name] = state.steps;
  json description = {{"version", kVersion},
                      {"rule", shared.rule->name()},
                      {"steps", shared.steps},
                      {"groups", groups},
                      {"parameter_steps", steps}};
  if (shared.scaler) description["scaler"] = shared.scaler->state();
  return description;
}

// What belongs to whole parameters is the same on every rank, and the master answers for it.
Pieces held_states(const optim::Optimizer::Shared& shared, bool is_master) {
  Pieces pieces;
  for (const Shard& shard : shared.training->publish(WEFT_REASON_SAVE)) {
    const auto found = shared.ranges.find({shard.param->index, shard.begin});
    if (found == shared.ranges.end()) continue;
    const weft_param& param = *shard.param;
    for (const auto& [name, tensor] : found->second)
      add_held(shard, {param.name + "/" + name, tensor.scalar_type(), param.shape}, param.index, tensor,
               pieces);
  }
  for (const auto& [index, state] : shared.parameters) {
    const std::string& parameter = shared.training->params()[index]->name;
    for (const auto& [name, tensor] : state.whole) {
      const std::vector<int64_t> shape = tensor.sizes().vec();
      pieces.push_back({{parameter + "/" + name, tensor.scalar_type(), shape},
                        index,
                        Box::whole(shape),
                        tensor.contiguous(),
                        is_master});
    }
  }
  return pieces;
}

}  // namespace

OptimizerSnapshot take_snapshot(const optim::Optimizer& optimizer, const Communicator& ranks) {
  const optim::Optimizer::Shared& shared = optimizer.shared();
  shared.boosted("saving its state");
  return {describe(shared), held_states(shared, ranks.rank() == 0)};
}

SavedOptimizer::SavedOptimizer(const json& saved, const std::vector<Entry>& entries,
                               const optim::Optimizer& optimizer, const std::string& path)
    : path_(path), shared_(optimizer.shared()) {
  shared_.boosted("loading its state");
  try {
    read_groups(saved);
  } catch (const json::exception& e) {
    fail(WEFT_DATA_LOSS, "{}: the optimizer's groups are damaged: {}", path_, text_of(e));
  }
  check_entries(entries);
}

void SavedOptimizer::read_groups(const json& saved) {
  if (const int64_t version = integer_at(saved, "version", path_); version != kVersion)
    fail(WEFT_FAILED_PRECONDITION, "{}: optimizer state of version {}, this Weft reads {}", path_, version,
         kVersion);
  if (const std::string rule = saved.at("rule"); rule != shared_.rule->name())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: state of optimizer \"{}\", but this job uses \"{}\"; use the same optimizer", path_, rule,
         shared_.rule->name());
  const json& groups = saved.at("groups");
  if (groups.size() != shared_.groups.size())
    fail(WEFT_INVALID_ARGUMENT, "{}: {} parameter groups, but this job has {}", path_, groups.size(),
         shared_.groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    optim::Group group = shared_.groups[g];
    if (groups[g].at("parameters").get<std::vector<std::string>>() != group.parameters.names)
      fail(WEFT_INVALID_ARGUMENT, "{}: the parameters of group {} are others than this job's", path_, g);
    const auto options = groups[g].at("options").get<optim::Hyper>();
    for (auto& [name, value] : group.options) {
      const auto found = options.find(name);
      if (found == options.end()) fail(WEFT_DATA_LOSS, "{}: group {} has no option \"{}\"", path_, g, name);
      value = found->second;
    }
    shared_.rule->check(group.options);
    group.initial_lr = groups[g].at("initial_lr");
    groups_.push_back(std::move(group));
  }
  steps_ = integer_at(saved, "steps", path_);
  if (shared_.scaler && saved.contains("scaler")) {
    scaler_ = saved.at("scaler");
    optim::LossScaler(*shared_.scaler).restore(scaler_);  // throws if it is none
  }
  for (const auto& [name, steps] : saved.at("parameter_steps").items())
    parameter_steps_[name] = integer_of(steps, "parameter_steps", path_);
}

// Every entry is state of a parameter of this model as the rule wants it, and none is missing.
void SavedOptimizer::check_entries(const std::vector<Entry>& entries) {
  const Bindings& training = *shared_.training;
  for (const Entry& entry : entries) {
    const auto [parameter, name] = split_name(entry.name);
    const weft_param* const param = training.find_param(parameter);
    const auto states =
        param == nullptr ? std::vector<optim::StateInfo>() : states_of(shared_, groups_, *param);
    const auto state = std::find_if(states.begin(), states.end(),
                                    [&, n = name](const optim::StateInfo& info) { return info.name == n; });
    if (state == states.end() || !parameter_steps_.contains(parameter))
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is no state of a parameter of {} under {}", path_,
           printable(entry.name, 80), training.model().architecture(), shared_.rule->name());
    const std::vector<int64_t> shape = optim::state_shape(state->kind, param->shape);
    if (entry.shape != shape)
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has shape ({}), must have ({})", path_, entry.name,
           fmt::join(entry.shape, ", "), fmt::join(shape, ", "));
    entries_[parameter][name] = entry;
  }
  for (const auto& [parameter, steps] : parameter_steps_) {
    const weft_param* const param = training.find_param(parameter);
    if (param == nullptr)
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has no parameter {}", path_, training.model().architecture(),
           printable(parameter, 80));
    const size_t wanted = states_of(shared_, groups_, *param).size();
    if (entries_[parameter].size() != wanted)
      fail(WEFT_DATA_LOSS, "{}: {} has {} states, must have {}", path_, parameter, entries_[parameter].size(),
           wanted);
  }
}

Pieces SavedOptimizer::wanted_states(const std::vector<Shard>& shards) {
  Pieces pieces;
  const at::ScalarType dtype = optim::computing_dtype(shared_.training->master_dtype());
  const auto make = [&](const Entry& entry, std::vector<int64_t> shape) {
    return at::empty(shape, at::isFloatingType(entry.dtype) ? dtype : entry.dtype);
  };
  for (const Shard& shard : shards) {
    const weft_param& param = *shard.param;
    if (!parameter_steps_.contains(param.name)) continue;
    for (const optim::StateInfo& info : states_of(shared_, groups_, param)) {
      const Entry& entry = entries_.at(param.name).at(info.name);
      if (info.kind != optim::StateKind::kElementwise) continue;
      at::Tensor& values = ranges_[{param.index, shard.begin}][info.name];
      // Where the values are: what the optimizer keeps beside them counts in their pool of memory.
      values = at::isFloatingType(entry.dtype) ? memory::empty_like(shard.value, dtype)
                                               : make(entry, {shard.count});
      add_wanted(shard, entry, param.index, values, pieces);
    }
  }
  for (const auto& [name, steps] : parameter_steps_) {
    const weft_param& param = *shared_.training->find_param(name);
    optim::ParameterState& state = parameters_[param.index];
    state.steps = steps;
    for (const optim::StateInfo& info : states_of(shared_, groups_, param)) {
      if (info.kind == optim::StateKind::kElementwise) continue;
      const Entry& entry = entries_.at(name).at(info.name);
      const at::Tensor values = make(entry, entry.shape);
      state.whole[info.name] = values;
      pieces.push_back({entry, param.index, Box::whole(entry.shape), values, true});
    }
  }
  return pieces;
}

void SavedOptimizer::apply(optim::Optimizer& optimizer) {
  optim::Optimizer::Shared& shared = optimizer.shared();
  shared.groups = std::move(groups_);
  shared.steps = steps_;
  if (shared.training != nullptr) shared.training->set_updates(steps_);
  shared.parameters = std::move(parameters_);
  shared.ranges = std::move(ranges_);
  if (!shared.scaler || scaler_.is_null()) return;
  shared.scaler->restore(scaler_);
  shared.training->set_loss_scale(shared.scaler->scale());
}

void read_optimizer(const std::string& path, optim::Optimizer& optimizer) {
  Bindings& training = optimizer.shared().boosted("loading its state");
  const Reader reader(path, training.options().booster.checkpoint_io);
  const auto groups = reader.metadata(kOptimizerKey);
  if (!groups)
    fail(WEFT_INVALID_ARGUMENT, "{} holds no optimizer state of Weft (metadata \"{}\" is missing)", path,
         kOptimizerKey);
  SavedOptimizer saved(parse_json(*groups, path + ": " + kOptimizerKey), reader.entries(), optimizer, path);
  for (const Piece& piece : saved.wanted_states(training.publish(WEFT_REASON_LOAD)))
    reader.read(*reader.find(piece.tensor.name), piece.box, piece.values);
  saved.apply(optimizer);
}

}  // namespace weft::checkpoint
