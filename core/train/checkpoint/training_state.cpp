#include "checkpoint/training_state.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <set>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "checkpoint/average_files.hpp"
#include "checkpoint/data_state.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/shard_pieces.hpp"
#include "comm/agreement.hpp"
#include "device/device.hpp"
#include "device/random.hpp"
#include "files/fingerprint.hpp"
#include "files/folder.hpp"
#include "log.hpp"
#include "plugins.hpp"
#include "training/generators.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kLargestState = size_t{1} << 28;  // every parameter's name stands in it
constexpr int kStateVersion = 2;

// Describes the mesh. Where it is the same, each rank goes on with its own generator.
json axes_to_json(const Mesh& mesh) {
  json axes = json::object();
  for (const auto& [group, size] : mesh.layout()) axes[group] = size;
  return axes;
}

json used_plugins_to_json() {
  json plugins = json::array();
  for (const UsedPlugin& plugin : used_plugins())
    plugins.push_back({{"kind", plugin.kind}, {"id", plugin.id}, {"version", plugin.version}});
  return plugins;
}

// How the names of tensors of strategies begin, and those of this one.
constexpr const char* kKept = "strategy/";
std::string kept_prefix(const Bindings& bindings) {
  return fmt::format("{}{}/", kKept, bindings.strategy_name());
}

// Of all ranks. Collective.
at::Tensor gather_generators(const World& world) {
  const at::Tensor mine = device::random_state().contiguous();
  const at::Tensor all = at::empty({world.size(), mine.numel()}, at::kByte);
  world.communicator().all_gather(all.view(-1), mine, true).wait();
  return all;
}

// What a reader of JSON from outside may meet at any key.
template <class Body>
auto reading(const std::string& path, const Body& body) {
  try {
    return body();
  } catch (const json::exception& e) {
    fail(WEFT_DATA_LOSS, "{} is damaged: {}", path, text_of(e));
  }
}

}  // namespace

json schedule_to_json(const optim::Scheduler& schedule) {
  json state = {{"identity", schedule.schedule().identity()}, {"last_step", schedule.last_step()}};
  if (schedule.schedule().follows_metric()) state["state"] = schedule.state();
  return state;
}

void read_schedule(const json& saved, const std::string& path, optim::Scheduler& schedule) {
  const auto [identity, step, state] = reading(path, [&] {
    return std::tuple(saved.at("identity").get<std::string>(), integer_at(saved, "last_step", path),
                      saved.value("state", std::string()));
  });
  if (identity != schedule.schedule().identity())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the learning-rate schedule was \"{}\", but this job has \"{}\"; give the same", path, identity,
         schedule.schedule().identity());
  if (schedule.schedule().follows_metric()) schedule.restore(state);
  schedule.seek(step);
}

TrainingSnapshot take_snapshot(const Trained& trained, const World& world, const std::vector<Shard>& shards,
                               const std::vector<Kept>& kept) {
  const Bindings& bindings = trained.bindings;
  TrainingSnapshot snapshot;
  snapshot.state = {
      {"version", kStateVersion},
      {"step", trained.optimizer ? trained.optimizer.steps() : 0},
      {"strategy", bindings.strategy_name()},
      {"objective", bindings.options().loss.identity()},
      {"plugins", used_plugins_to_json()},
      {"ranks", world.size()},
      {"precision", bindings.options().precision},
      {"accumulate", trained.accumulate},
      {"max_grad_norm", trained.max_grad_norm},
      {"device", device::current().kind().name},
      {"threads", at::get_num_threads()},
      {"axes", axes_to_json(bindings.mesh())},
      {"saved_at", std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)}};
  if (trained.optimizer) {
    OptimizerSnapshot optimizer = take_snapshot(trained.optimizer, world.communicator());
    snapshot.state["optimizer"] = std::move(optimizer.description);
    snapshot.pieces = std::move(optimizer.pieces);
  }
  if (trained.schedule) snapshot.state["schedule"] = schedule_to_json(trained.schedule);
  on_every_rank(world.communicator(), [&] {  // reads samples
    if (trained.data) snapshot.state["data"] = data_to_json(trained.data);
  });
  if (!trained.hook_states.empty()) snapshot.state["hooks"] = trained.hook_states;
  snapshot.configuration = trained.configuration;
  snapshot.generators = gather_generators(world);
  for (const Shard& shard : shards) {
    const weft_param& param = *shard.param;
    const at::ScalarType master = shard.value.scalar_type();
    if (master != param.tensor.scalar_type())
      add_held(shard, {param.name, master, param.shape}, param.index, shard.value, snapshot.pieces);
  }
  if (trained.average) add_averages(*trained.average, snapshot.pieces);
  for (const auto& [name, range] : kept) {
    const weft_param& param = *range.param;
    add_held(range, {kept_prefix(bindings) + name + "/" + param.name, range.value.scalar_type(), param.shape},
             param.index, range.value, snapshot.pieces);
  }
  return snapshot;
}

void write_training_state(const fs::path& folder, const std::string& weights, const std::string& format,
                          const Communicator& ranks, const TrainingSnapshot& snapshot) {
  write_parts(folder.string(), ranks, snapshot.pieces);
  on_master(ranks, [&] {
    const std::vector<int64_t> shape = snapshot.generators.sizes().vec();
    Writer writer((folder / "random.safetensors").string(), {}, {{"generators", at::kByte, shape}});
    writer.write(0, Box::whole(shape), snapshot.generators);
    writer.commit();
    if (!snapshot.configuration.empty())
      write_file(folder / "job.yaml", snapshot.configuration, kLargestState);
    json state = snapshot.state;
    state["weights"] = fingerprint(Reader(weights, format_named(format)));
    write_file(folder / "state.json", state.dump(2) + "\n", kLargestState);
  });
}

std::optional<json> saved_state(const fs::path& folder) {
  const std::string path = (folder / "state.json").string();
  if (!fs::exists(path)) return std::nullopt;
  json state = parse_json(read_file(path, kLargestState), path);
  reading(path, [&] { integer_at(state, "saved_at", path); });
  return state;
}

SavedTraining::SavedTraining(const fs::path& model_folder, Trained trained)
    : trained_(std::move(trained)),
      model_folder_(model_folder.string()),
      folder_(model_folder / kStateFolder),
      path_((folder_ / "state.json").string()) {
  if (!fs::exists(path_))
    fail(WEFT_NOT_FOUND,
         "{} does not exist: {} holds no training state to resume from (save one with --output)", path_,
         model_folder_);
  state_ = parse_json(read_file(path_, kLargestState), path_);
  reading(path_, [&] {
    check();
    weights_ = fingerprint(Reader(model_folder_, trained_.bindings.options().booster.checkpoint_io));
    check_weights();
  });
  parts_ = std::make_unique<PartsReader>(folder_.string());
  if (!trained_.optimizer) return;
  std::vector<Entry> states;
  for (const Entry& entry : parts_->entries())
    if (trained_.bindings.find_param(entry.name) == nullptr && !entry.name.starts_with(kKept) &&
        !is_average(entry.name))
      states.push_back(entry);
  optimizer_ = std::make_unique<SavedOptimizer>(state_.at("optimizer"), states, trained_.optimizer, path_);
}

void SavedTraining::check() const {
  const int64_t version = integer_at(state_, "version", path_);
  if (version != kStateVersion)
    fail(WEFT_FAILED_PRECONDITION, "{}: training state of version {}, this Weft reads {}", path_, version,
         kStateVersion);
  // A training state of an earlier version has none.
  const auto shown = [](const std::string& loss) { return loss.empty() ? "the model's own loss" : loss; };
  const std::string saved_loss = state_.value("objective", ""),
                    own_loss = trained_.bindings.options().loss.identity();
  if (saved_loss != own_loss)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the job that was saved trained by {}, this one by {}; give the same objective and options",
         path_, shown(saved_loss), shown(own_loss));
  const auto require_both = [&](const char* key, bool has) {
    if (state_.contains(key) == has) return;
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the job that was saved had {} {}, this one has {}; boost with the same parts", path_,
         has ? "no" : "a", key, has ? "one" : "none");
  };
  if (trained_.optimizer && !state_.contains("optimizer"))
    fail(WEFT_NOT_FOUND, "{}: the job that was saved had no optimizer to resume from", path_);
  if (trained_.optimizer) {
    require_both("schedule", static_cast<bool>(trained_.schedule));
    require_both("data", static_cast<bool>(trained_.data));
  }
  if (trained_.schedule && state_.contains("schedule")) {
    optim::Scheduler schedule = trained_.schedule;
    const int64_t step = schedule.last_step();
    const std::string state = schedule.state();
    read_schedule(state_.at("schedule"), path_, schedule);
    schedule.restore(state);
    schedule.seek(step);
  }
  if (trained_.data && state_.contains("data")) check_data();
}

// The optimizer's state belongs to these weights and to no others.
void SavedTraining::check_weights() const {
  if (!state_.contains("weights")) return;  // saved by a Weft that did not know it; warned of in restore()
  if (state_.at("weights").get<std::string>() != weights_)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}: the weights in {} are not those with which this training state was saved: give the folder as it "
        "was saved, or begin a new training from these weights with --model {}",
        path_, model_folder_, model_folder_);
}

void SavedTraining::check_data() const {
  const json& saved = state_.at("data");
  for (const char* key : {"epoch", "batch"}) integer_at(saved, key, path_);
  const json own = data_to_json(trained_.data);
  const auto refuse = [&](const std::string& text) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the data position is {}; give the same data, objective, batch size and seed", path_, text);
  };
  for (const char* key : {"samples", "batch_size"})
    if (saved.at(key) != own.at(key))
      refuse(fmt::format("of {} samples in batches of {}, but this job has {} in batches of {}",
                         saved.at("samples").dump(), saved.at("batch_size").dump(), own.at("samples").dump(),
                         own.at("batch_size").dump()));
  // A training state of an earlier version has none.
  const json objective = saved.value("objective", json(""));
  const auto shown = [](const json& text) {
    return text == "" ? "labels of the data" : text.is_string() ? text.get<std::string>() : text.dump();
  };
  if (objective != own.at("objective"))
    refuse(fmt::format("of {}, but this job's is of {}", shown(objective), shown(own.at("objective"))));
  if (saved.at("fingerprint") != own.at("fingerprint"))
    refuse(fmt::format("of other data than this job's, with as many samples ({})", own.at("samples").dump()));
  const bool shuffle = saved.at("shuffle");
  if (shuffle != trained_.data.options().shuffle)
    refuse(fmt::format("of {} samples, but this job {} them", shuffle ? "shuffled" : "unshuffled",
                       shuffle ? "does not shuffle" : "shuffles"));
  if (const bool drops = saved.value("drop_last", false); drops != trained_.data.options().drop_last)
    refuse(fmt::format("{} drop_last, but this job has it {}", drops ? "with" : "without",
                       drops ? "off" : "on"));
  if (shuffle && saved.at("seed") != own.at("seed"))
    refuse(fmt::format("of samples shuffled by seed {}, but this job's is {}", saved.at("seed").dump(),
                       own.at("seed").dump()));
}

void SavedTraining::warn_of_differences() const {
  const auto warn = [&](const char* what, const json& own) {
    if (state_.value(what, json()) == own) return;
    log(WEFT_LOG_WARNING,
        fmt::format("{}: {} was {}, is {}: the run will differ from one that was not interrupted", path_,
                    what, state_.value(what, json()).dump(), own.dump()));
  };
  if (!state_.contains("weights"))
    log(WEFT_LOG_WARNING,
        fmt::format("{} does not say with which weights it was saved, so whether those of {} "
                    "are the same was not checked",
                    path_, model_folder_));
  warn("precision", trained_.bindings.options().precision);
  warn("accumulate", trained_.accumulate);
  warn("max_grad_norm", trained_.max_grad_norm);
  warn("threads", at::get_num_threads());
  if (!trained_.data || !state_.contains("data")) return;
  const std::string own = trained_.data.dataset().attention(),
                    saved = saved_attention(state_.at("data"), trained_.bindings.model());
  if (!own.empty() && own != saved)
    log(WEFT_LOG_WARNING,
        fmt::format(
            "{}: what tokens of packed documents attend to was \"{}\", is \"{}\": the run will differ "
            "from one that was not interrupted",
            path_, saved, own));
}

std::map<std::string, std::string> SavedTraining::hook_states() const {
  return reading(
      path_, [&] { return state_.value("hooks", json::object()).get<std::map<std::string, std::string>>(); });
}

json SavedTraining::identity() const {
  return {{"step", state_.value("step", json())},
          {"saved_at", state_.value("saved_at", json())},
          {"states", compared_content(*parts_)},
          {"weights", digest_prefix(weights_)}};
}

void SavedTraining::read_kept(const std::vector<Kept>& kept) const {
  const Bindings& bindings = trained_.bindings;
  const std::string prefix = kept_prefix(bindings);
  std::set<std::string> read, missing, left;
  for (const auto& [name, range] : kept) {
    const weft_param& param = *range.param;
    const std::string entry_name = prefix + name + "/" + param.name;
    const std::optional<size_t> found = parts_->find(entry_name);
    if (!found) {
      missing.insert(name);
      continue;
    }
    const Entry& entry = parts_->entries()[*found];
    if (entry.shape != param.shape)
      fail(WEFT_INVALID_ARGUMENT, "{}: {} has shape ({}), must have ({})", path_, entry_name,
           fmt::join(entry.shape, ", "), fmt::join(param.shape, ", "));
    Pieces pieces;
    add_wanted(range, entry, param.index, range.value, pieces);
    for (const Piece& piece : pieces) parts_->read(*found, piece.box, piece.values);
    read.insert(name);
  }
  for (const Entry& entry : parts_->entries()) {
    if (!entry.name.starts_with(kKept)) continue;
    const bool is_own =
        entry.name.starts_with(prefix) &&
        read.contains(entry.name.substr(prefix.size(), entry.name.rfind('/') - prefix.size()));
    if (!is_own) left.insert(entry.name.substr(0, entry.name.rfind('/')));
  }
  if (!bindings.world().is_master()) return;
  for (const std::string& name : missing)
    log(WEFT_LOG_WARNING,
        fmt::format("{}: it has no \"{}\" (or not of every parameter), which strategy {} keeps and "
                    "now begins anew",
                    path_, name, bindings.strategy_name()));
  for (const std::string& name : left)
    log(WEFT_LOG_WARNING, fmt::format("{}: {} is left out: strategy {} keeps nothing of this name", path_,
                                      name, bindings.strategy_name()));
}

void SavedTraining::read(const std::vector<Shard>& shards, const std::vector<Kept>& kept) {
  read_kept(kept);
  if (optimizer_ != nullptr)
    for (const Piece& piece : optimizer_->wanted_states(shards))
      parts_->read(*parts_->find(piece.tensor.name), piece.box, piece.values);
  read_weights(model_folder_, trained_.bindings, shards, true, parts_.get());
  averaged_ = trained_.average && read_averages(*parts_, path_, *trained_.average);
}

bool SavedTraining::restore_generator(const World& world) const {
  const Mesh& mesh = trained_.bindings.mesh();
  const bool same_axes = state_.value("axes", json()) == axes_to_json(mesh);
  const Reader reader((folder_ / "random.safetensors").string(), format_named(""));
  const auto entry = reader.find("generators");
  if (!entry || reader.entries()[*entry].shape.size() != 2 || reader.entries()[*entry].dtype != at::kByte)
    fail(WEFT_DATA_LOSS, "{} has no entry \"generators\" of bytes, one row a rank", reader.path());
  const std::vector<int64_t>& shape = reader.entries()[*entry].shape;
  if (shape[0] < 1 || (same_axes && shape[0] != world.size()))
    fail(WEFT_DATA_LOSS, "{} has the generators of {} ranks, must be of {}", reader.path(), shape[0],
         world.size());
  const at::Tensor state = at::empty({shape[1]}, at::kByte);
  reader.read_range(*entry, (same_axes ? world.rank() : 0) * shape[1], state);
  device::set_random_state(state);
  if (!same_axes) seed_generator(nn::drawn_seed(), mesh);
  return same_axes;
}

void SavedTraining::restore(const World& world) {
  if (optimizer_ != nullptr) optimizer_->apply(trained_.optimizer);
  if (trained_.schedule && state_.contains("schedule"))
    read_schedule(state_.at("schedule"), path_, trained_.schedule);
  if (trained_.data && state_.contains("data"))
    reading(path_, [&] {
      trained_.data.seek({state_.at("data").at("epoch"), state_.at("data").at("batch")});
    });
  if (trained_.average && !averaged_) trained_.average->reset();
  const bool same_axes = restore_generator(world);
  if (!world.is_master()) return;
  if (trained_.average && !averaged_)
    log(WEFT_LOG_WARNING, fmt::format("{} has no averaged weights; they begin with these", path_));
  warn_of_differences();
  if (!same_axes)
    log(WEFT_LOG_WARNING, fmt::format("{} was saved by other data- and tensor-parallel ranks than these {}: "
                                      "dropout will differ from a run that was "
                                      "not interrupted",
                                      folder_.string(), world.size()));
}

}  // namespace weft::checkpoint
