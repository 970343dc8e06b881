// Optimizers in checkpoints.
#include <ATen/ops/empty.h>

#include <set>

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
  for (const auto& [key, state] : shared.states)
    steps[shared.training->params()[key.first]->name] = state.steps;
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

// Every entry is state of a parameter of this model, in its shape and precision, and all have the same.
void read_entries(const Reader& reader, const Training& training, Saved& saved) {
  for (size_t e = 0; e < reader.entries().size(); ++e) {
    const Entry& entry = reader.entries()[e];
    const size_t slash = entry.name.rfind('/');
    const std::string name = entry.name.substr(0, slash == std::string::npos ? 0 : slash);
    const weft_param* const param = training.find_param(name);
    if (param == nullptr || !saved.parameter_steps.contains(name))
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is no state of a parameter of {}", reader.path(),
           printable(entry.name, 80), training.model().architecture());
    if (entry.shape != param->shape)
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has shape ({}), its parameter ({})", reader.path(), entry.name,
           fmt::join(entry.shape, ", "), fmt::join(param->shape, ", "));
    if (entry.dtype != training.dtype())
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is of type {}, this job's precision is {}", reader.path(),
           entry.name, c10::toString(entry.dtype), training.options().precision);
    saved.entries[name].emplace_back(entry.name.substr(slash + 1), e);
  }
  std::set<std::string> all;
  for (const auto& [name, entries] : saved.entries)
    for (const auto& entry : entries) all.insert(entry.first);
  for (const auto& [name, steps] : saved.parameter_steps)
    if (saved.entries[name].size() != all.size())
      fail(WEFT_DATA_LOSS, "{}: {} has {} of the states ({})", reader.path(), name,
           saved.entries[name].size(), fmt::join(all, ", "));
}

}  // namespace

void write_optimizer(const std::string& path, const WriteOptions& options,
                     const optim::Optimizer& optimizer) {
  const optim::Optimizer::Shared& shared = boosted(optimizer);
  Training& training = *shared.training;
  std::vector<Entry> entries;
  std::map<std::string, size_t> index;
  for (const auto& [key, state] : shared.states) {
    const weft_param& param = *training.params()[key.first];
    for (const auto& [name, tensor] : state.tensors)
      if (index.emplace(param.name + "/" + name, entries.size()).second)
        entries.push_back({param.name + "/" + name, tensor.scalar_type(), param.shape});
  }
  WriteOptions with_groups = options;
  with_groups.metadata[kGroupsKey] = groups_to_json(shared).dump();
  Writer writer(path, with_groups, entries);
  for (const auto& [key, state] : shared.states)
    for (const auto& [name, tensor] : state.tensors)
      writer.write(index.at(training.params()[key.first]->name + "/" + name), key.second, tensor);
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
  read_entries(reader, *shared.training, saved);
  std::map<std::pair<uint32_t, int64_t>, optim::RangeState> states;
  for (const Shard& shard : shared.training->publish()) {
    const auto steps = saved.parameter_steps.find(shard.param->name);
    if (steps == saved.parameter_steps.end()) continue;
    optim::RangeState state;
    state.steps = steps->second;
    for (const auto& [name, entry] : saved.entries[shard.param->name]) {
      const at::Tensor values = at::empty({shard.count}, reader.entries()[entry].dtype);
      reader.read_range(entry, shard.begin, values);
      state.tensors[name] = values;
    }
    states[{shard.param->index, shard.begin}] = std::move(state);
  }
  shared.groups = std::move(saved.groups);
  shared.steps = saved.steps;
  shared.states = std::move(states);
}

}  // namespace weft::checkpoint
