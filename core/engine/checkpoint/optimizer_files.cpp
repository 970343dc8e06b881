// Optimizers in checkpoints.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/training_state.hpp"
#include "optim/optimizer_state.hpp"

namespace weft::checkpoint {

using nlohmann::json;

namespace {

constexpr int kVersion = 1;
constexpr const char* kGroupsKey = "weft.optimizer";

const optim::Optimizer::Shared& boosted(const optim::Optimizer& optimizer) {
  if (optimizer.shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "the optimizer is not boosted: its state exists only then");
  return optimizer.shared();
}

json groups_to_json(const optim::Optimizer::Shared& shared) {
  json groups = json::array();
  for (const optim::Group& group : shared.groups)
    groups.push_back({{"parameters", group.parameters.names},
                      {"options", group.options},
                      {"initial_lr", group.initial_lr}});
  json steps = json::object();
  for (const auto& [index, state] : shared.parameters)
    steps[shared.training->params()[index]->name] = state.steps;
  return {{"version", kVersion},
          {"rule", shared.rule->name()},
          {"steps", shared.steps},
          {"groups", groups},
          {"parameter_steps", steps}};
}

// Everything of the file that can be known without its tensors, compared with the optimizer.
struct Saved {
  int64_t steps = 0;
  std::vector<optim::Group> groups;
  std::map<std::string, int64_t> parameter_steps;
  std::map<std::string, std::vector<std::pair<std::string, size_t>>>
      entries;  // by parameter: name of the state, entry
};

Saved read_groups(const json& saved, const optim::Optimizer::Shared& shared, const std::string& path) {
  Saved result;
  const int version = saved.at("version");
  if (version != kVersion)
    fail(WEFT_FAILED_PRECONDITION, "{}: optimizer state of version {}, this Weft reads {}", path, version,
         kVersion);
  const std::string rule = saved.at("rule");
  if (rule != shared.rule->name())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: state of optimizer \"{}\", but this job uses \"{}\"; use the same optimizer", path, rule,
         shared.rule->name());
  const json& groups = saved.at("groups");
  if (groups.size() != shared.groups.size())
    fail(WEFT_INVALID_ARGUMENT, "{}: {} parameter groups, but this job has {}", path, groups.size(),
         shared.groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    optim::Group group = shared.groups[g];
    if (groups[g].at("parameters").get<std::vector<std::string>>() != group.parameters.names)
      fail(WEFT_INVALID_ARGUMENT, "{}: the parameters of group {} are others than this job's", path, g);
    const auto options = groups[g].at("options").get<optim::Hyper>();
    for (auto& [name, value] : group.options) {
      const auto found = options.find(name);
      if (found == options.end()) fail(WEFT_DATA_LOSS, "{}: group {} has no option \"{}\"", path, g, name);
      value = found->second;
    }
    shared.rule->check(group.options);
    group.initial_lr = groups[g].at("initial_lr");
    result.groups.push_back(std::move(group));
  }
  result.steps = saved.at("steps");
  result.parameter_steps = saved.at("parameter_steps").get<std::map<std::string, int64_t>>();
  return result;
}

// The states of `param` by the rule; none if it is not optimized.
std::vector<optim::StateInfo> states_of(const optim::Optimizer::Shared& shared,
                                        const std::vector<optim::Group>& groups, const weft_param& param) {
  const int group = shared.group_of[param.index];
  if (group < 0) return {};
  return shared.rule->states(groups[static_cast<size_t>(group)].options, param.shape);
}

// Every entry is state of a parameter of this model as the rule wants it, and none is missing.
void read_entries(const Reader& reader, const optim::Optimizer::Shared& shared, Saved& saved) {
  const Training& training = *shared.training;
  for (size_t e = 0; e < reader.entries().size(); ++e) {
    const Entry& entry = reader.entries()[e];
    const size_t slash = entry.name.rfind('/');
    const std::string name = entry.name.substr(0, slash == std::string::npos ? 0 : slash);
    const weft_param* const param = training.find_param(name);
    const auto states =
        param == nullptr ? std::vector<optim::StateInfo>() : states_of(shared, saved.groups, *param);
    const auto state = std::find_if(states.begin(), states.end(), [&](const optim::StateInfo& info) {
      return entry.name.compare(slash + 1, std::string::npos, info.name) == 0;
    });
    if (state == states.end() || !saved.parameter_steps.contains(name))
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is no state of a parameter of {} under {}", reader.path(),
           printable(entry.name, 80), training.model().architecture(), shared.rule->name());
    const std::vector<int64_t> shape = optim::state_shape(state->kind, param->shape);
    if (entry.shape != shape)
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has shape ({}), must have ({})", reader.path(), entry.name,
           fmt::join(entry.shape, ", "), fmt::join(shape, ", "));
    if (entry.dtype != training.master_dtype())
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is of type {}, this job's precision is {}", reader.path(),
           entry.name, c10::toString(entry.dtype), training.options().precision);
    saved.entries[name].emplace_back(entry.name.substr(slash + 1), e);
  }
  for (const auto& [name, steps] : saved.parameter_steps) {
    const weft_param* const param = training.find_param(name);
    if (param == nullptr)
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has no parameter {}", reader.path(),
           training.model().architecture(), printable(name, 80));
    const size_t wanted = states_of(shared, saved.groups, *param).size();
    if (saved.entries[name].size() != wanted)
      fail(WEFT_DATA_LOSS, "{}: {} has {} states, must have {}", reader.path(), name,
           saved.entries[name].size(), wanted);
  }
}

}  // namespace

void write_optimizer(const std::string& path, const WriteOptions& options,
                     const optim::Optimizer& optimizer) {
  const optim::Optimizer::Shared& shared = boosted(optimizer);
  Training& training = *shared.training;
  std::vector<Entry> entries;
  std::map<std::string, size_t> index;
  const auto add = [&](const weft_param& param, const optim::States& states, const auto& shape_of) {
    for (const auto& [name, tensor] : states)
      if (index.emplace(param.name + "/" + name, entries.size()).second)
        entries.push_back({param.name + "/" + name, tensor.scalar_type(), shape_of(tensor)});
  };
  for (const auto& [key, states] : shared.ranges) {
    const weft_param& param = *training.params()[key.first];
    add(param, states, [&](const at::Tensor&) { return param.shape; });
  }
  for (const auto& [p, state] : shared.parameters)
    add(*training.params()[p], state.whole, [](const at::Tensor& tensor) { return tensor.sizes().vec(); });
  WriteOptions with_groups = options;
  with_groups.metadata[kGroupsKey] = groups_to_json(shared).dump();
  Writer writer(path, with_groups, entries);
  for (const auto& [key, states] : shared.ranges)
    for (const auto& [name, tensor] : states)
      writer.write(index.at(training.params()[key.first]->name + "/" + name), key.second, tensor);
  for (const auto& [p, state] : shared.parameters)
    for (const auto& [name, tensor] : state.whole)
      writer.write(index.at(training.params()[p]->name + "/" + name), 0, tensor.flatten());
  writer.commit();
}

void read_optimizer(const std::string& path, optim::Optimizer& optimizer) {
  boosted(optimizer);
  optim::Optimizer::Shared& shared = optimizer.shared();
  const Reader reader(path);
  const auto groups = reader.metadata(kGroupsKey);
  if (!groups)
    fail(WEFT_INVALID_ARGUMENT, "{} holds no optimizer state of Weft (metadata \"{}\" is missing)", path,
         kGroupsKey);
  Saved saved;
  try {
    saved = read_groups(parse_json(*groups, path + ": " + kGroupsKey), shared, path);
  } catch (const json::exception& e) {
    fail(WEFT_DATA_LOSS, "{}: the optimizer's groups are damaged: {}", path, e.what());
  }
  read_entries(reader, shared, saved);
  std::map<uint32_t, optim::ParameterState> parameters;
  std::map<std::pair<uint32_t, int64_t>, optim::States> ranges;
  const auto each_state = [&](const weft_param& param, const auto& read) {
    const auto states = states_of(shared, saved.groups, param);
    for (const auto& [name, entry] : saved.entries[param.name])
      for (const optim::StateInfo& info : states)
        if (info.name == name) read(info, entry);
  };
  for (const auto& [name, steps] : saved.parameter_steps) {
    const weft_param& param = *shared.training->find_param(name);
    parameters[param.index].steps = steps;
    each_state(param, [&](const optim::StateInfo& info, size_t entry) {
      if (info.kind != optim::StateKind::kElementwise)
        parameters[param.index].whole[info.name] = reader.read(entry);
    });
  }
  for (const Shard& shard : shared.training->publish())
    each_state(*shard.param, [&](const optim::StateInfo& info, size_t entry) {
      if (info.kind != optim::StateKind::kElementwise) return;
      at::Tensor& values = ranges[{shard.param->index, shard.begin}][info.name];
      values = at::empty({shard.count}, reader.entries()[entry].dtype);
      reader.read_range(entry, shard.begin, values);
    });
  shared.groups = std::move(saved.groups);
  shared.steps = saved.steps;
  shared.parameters = std::move(parameters);
  shared.ranges = std::move(ranges);
}

}  // namespace weft::checkpoint
