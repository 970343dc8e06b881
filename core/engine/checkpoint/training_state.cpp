#include "checkpoint/training_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "checkpoint/folder.hpp"
#include "log.hpp"
#include "optim/optimizer_state.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kStateVersion = 1;
constexpr const char* kGroupsKey = "weft.optimizer";

json groups_to_json(const optim::Optimizer::Shared& shared) {
  json groups = json::array();
  for (const optim::Group& group : shared.groups)
    groups.push_back({{"parameters", group.parameters.names}, {"options", group.options}, {"initial_lr", group.initial_lr}});
  json steps = json::object();
  for (const auto& [key, state] : shared.states) steps[shared.training->params()[key.first]->name] = state.steps;
  return {{"version", kStateVersion}, {"rule", shared.rule->name()}, {"steps", shared.steps}, {"groups", groups},
          {"parameter_steps", steps}};
}

const optim::Optimizer::Shared& boosted(const optim::Optimizer& optimizer) {
  if (optimizer.shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "the optimizer is not boosted: its state exists only then");
  return optimizer.shared();
}

// Options and rates of the saved groups. The parameters and the rule must be the same.
void restore_groups(optim::Optimizer::Shared& shared, const json& saved, const std::string& path) {
  if (saved.value("version", 0) != kStateVersion)
    fail(WEFT_FAILED_PRECONDITION, "{}: optimizer state of version {}, this Weft reads {}", path, saved.value("version", 0), kStateVersion);
  if (saved.at("rule") != shared.rule->name())
    fail(WEFT_INVALID_ARGUMENT, "{}: state of optimizer \"{}\", but this job uses \"{}\"; use the same optimizer", path,
         saved.at("rule").get<std::string>(), shared.rule->name());
  const json& groups = saved.at("groups");
  if (groups.size() != shared.groups.size())
    fail(WEFT_INVALID_ARGUMENT, "{}: {} parameter groups, but this job has {}", path, groups.size(), shared.groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].at("parameters").get<std::vector<std::string>>() != shared.groups[g].parameters.names)
      fail(WEFT_INVALID_ARGUMENT, "{}: the parameters of group {} are others than this job's", path, g);
    shared.groups[g].options = groups[g].at("options").get<optim::Hyper>();
    shared.groups[g].initial_lr = groups[g].at("initial_lr");
  }
  shared.steps = saved.at("steps");
}

}  // namespace

void write_optimizer(const std::string& path, const WriteOptions& options, const optim::Optimizer& optimizer) {
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
  if (!groups) fail(WEFT_INVALID_ARGUMENT, "{} holds no optimizer state of Weft (metadata \"{}\" is missing)", path, kGroupsKey);
  const json saved = parse_json(*groups, path + ": " + kGroupsKey);
  restore_groups(shared, saved, path);
  std::map<std::pair<uint32_t, int64_t>, optim::RangeState> states;
  for (const Shard& shard : shared.training->publish()) {
    const std::string& name = shard.param->name;
    if (!saved.at("parameter_steps").contains(name)) continue;
    optim::RangeState state;
    state.steps = saved.at("parameter_steps").at(name);
    for (size_t e = 0; e < reader.entries().size(); ++e) {
      const Entry& entry = reader.entries()[e];
      if (!entry.name.starts_with(name + "/")) continue;
      if (entry.shape != shard.param->shape)
        fail(WEFT_INVALID_ARGUMENT, "{}: {} has {} elements, its parameter {}", path, entry.name, entry.numel(), shard.param->count());
      const at::Tensor values = at::empty({shard.count}, entry.dtype);
      reader.read_range(e, shard.begin, values);
      state.tensors[entry.name.substr(name.size() + 1)] = values;
    }
    states[{shard.param->index, shard.begin}] = std::move(state);
  }
  shared.states = std::move(states);
}

namespace {

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

RandomStates::RandomStates(const World& world) {
  const at::Tensor mine = generator_state().contiguous();
  states_ = at::empty({world.size(), mine.numel()}, at::kByte);
  world.communicator().all_gather(states_.view(-1), mine, true).wait();
}

void RandomStates::write(const fs::path& folder) const {
  Writer writer((folder / "random.safetensors").string(), {}, {{"generators", at::kByte, states_.sizes().vec()}});
  writer.write(0, 0, states_);
  writer.commit();
}

bool RandomStates::restore(const fs::path& folder, const World& world) {
  const Reader reader((folder / "random.safetensors").string());
  const auto entry = reader.find("generators");
  if (!entry) fail(WEFT_DATA_LOSS, "{} has no entry \"generators\"", reader.path());
  if (reader.entries()[*entry].shape.at(0) != world.size()) return false;
  const at::Tensor mine = reader.read_rows(*entry, world.rank(), 1).view(-1);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(mine);
  return true;
}

void write_training_state(const fs::path& folder, const Job& job, const Progress& progress, const RandomStates& random,
                          const std::string& strategy) {
  json state = {{"version", kStateVersion}, {"step", progress.step}, {"strategy", strategy}, {"threads", at::get_num_threads()}};
  if (job.optimizer) write_optimizer((folder / "optimizer.safetensors").string(), {}, job.optimizer);
  if (job.schedule) state["schedule"] = {{"last_step", job.schedule.last_step()}};
  if (job.data) {
    const data::Loader::Position position = job.data.position();
    state["data"] = {{"epoch", position.epoch}, {"batch", position.batch}, {"batch_size", job.data.options().batch_size},
                     {"seed", job.data.options().seed}, {"samples", job.data.dataset().size()}};
  }
  random.write(folder);
  write_file(folder / "state.json", state.dump(2) + "\n");
}

Progress read_training_state(const fs::path& folder, Job& job, const World& world) {
  const fs::path path = folder / "state.json";
  if (!fs::exists(path))
    fail(WEFT_NOT_FOUND, "{} does not exist: {} holds no training state to resume from (save one with --save)", path.string(),
         folder.parent_path().string());
  const json state = parse_json(read_file(path.string(), 1 << 20), path.string());
  if (state.value("version", 0) != kStateVersion)
    fail(WEFT_FAILED_PRECONDITION, "{}: training state of version {}, this Weft reads {}", path.string(), state.value("version", 0),
         kStateVersion);
  if (job.optimizer) {
    if (!fs::exists(folder / "optimizer.safetensors"))
      fail(WEFT_NOT_FOUND, "{} has no optimizer.safetensors to resume the optimizer from", folder.string());
    read_optimizer((folder / "optimizer.safetensors").string(), job.optimizer);
  }
  if (job.schedule && state.contains("schedule")) job.schedule.seek(state["schedule"].at("last_step"));
  if (job.data && state.contains("data")) {
    const json& data = state["data"];
    if (data.at("samples") != job.data.dataset().size() || data.at("batch_size") != job.data.options().batch_size)
      fail(WEFT_INVALID_ARGUMENT, "{}: the data position is of {} samples in batches of {}, but this job has {} in batches of {}; give the "
           "same data and batch size", path.string(), data.at("samples").get<int64_t>(), data.at("batch_size").get<int64_t>(),
           job.data.dataset().size(), job.data.options().batch_size);
    job.data.seek({data.at("epoch"), data.at("batch")});
  }
  if (!RandomStates::restore(folder, world))
    log(WEFT_LOG_WARNING, fmt::format("{} was saved by another number of ranks: dropout masks will differ from a run that was not "
                                      "interrupted", folder.string()));
  if (state.value("threads", 0) != at::get_num_threads())
    log(WEFT_LOG_WARNING, fmt::format("{} was saved with {} threads a rank, now {}: sums may round differently; set OMP_NUM_THREADS",
                                      folder.string(), state.value("threads", 0), at::get_num_threads()));
  return {state.at("step")};
}

}  // namespace weft::checkpoint
