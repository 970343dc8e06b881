#include "checkpoint/training_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <mutex>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "booster/model_state.hpp"
#include "checkpoint/folder.hpp"
#include "log.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kStateVersion = 1;

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

// Of samples spread over the data: another file, another order of tokens or another sequence length shows.
std::string fingerprint(const data::Dataset& dataset) {
  constexpr int64_t kSamples = 16;
  const int64_t count = std::min(kSamples, dataset.size());
  Sha256 digest;
  for (int64_t i = 0; i < count; ++i) {
    const Batch sample = dataset.get({count == 1 ? 0 : (dataset.size() - 1) * i / (count - 1)});
    for (const auto& [name, tensor] : sample) {
      const std::string head = fmt::format("{} {} {}\n", name, c10::toString(tensor.scalar_type()),
                                           fmt::join(tensor.sizes(), ","));
      const at::Tensor values = tensor.contiguous();
      digest.update(head.data(), head.size());
      digest.update(values.data_ptr(), values.nbytes());
    }
  }
  return digest.finish();
}

json data_to_json(const data::Loader& loader) {
  const data::Loader::Position position = loader.position();
  const data::LoaderOptions& options = loader.options();
  return {{"epoch", position.epoch},
          {"batch", position.batch},
          {"batch_size", options.batch_size},
          {"samples", loader.dataset().size()},
          {"fingerprint", fingerprint(loader.dataset())},
          {"shuffle", options.shuffle},
          {"seed", options.seed}};
}

// What a reader of JSON from outside may meet at any key.
template <class Body>
auto reading(const std::string& path, const Body& body) {
  try {
    return body();
  } catch (const json::exception& e) {
    fail(WEFT_DATA_LOSS, "{} is damaged: {}", path, e.what());
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
    return std::tuple(saved.at("identity").get<std::string>(), saved.at("last_step").get<int64_t>(),
                      saved.value("state", std::string()));
  });
  if (identity != schedule.schedule().identity())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the learning-rate schedule was \"{}\", but this job has \"{}\"; give the same", path, identity,
         schedule.schedule().identity());
  if (schedule.schedule().follows_metric()) schedule.restore(state);
  schedule.seek(step);
}

RandomStates::RandomStates(const World& world) {
  const at::Tensor mine = generator_state().contiguous();
  states_ = at::empty({world.size(), mine.numel()}, at::kByte);
  world.communicator().all_gather(states_.view(-1), mine, true).wait();
}

void RandomStates::write(const fs::path& folder) const {
  Writer writer((folder / "random.safetensors").string(), {},
                {{"generators", at::kByte, states_.sizes().vec()}});
  writer.write(0, 0, states_);
  writer.commit();
}

bool RandomStates::restore(const fs::path& folder, const World& world) {
  const Reader reader((folder / "random.safetensors").string());
  const auto entry = reader.find("generators");
  if (!entry || reader.entries()[*entry].shape.size() != 2 || reader.entries()[*entry].dtype != at::kByte)
    fail(WEFT_DATA_LOSS, "{} has no entry \"generators\" of bytes, one row a rank", reader.path());
  if (reader.entries()[*entry].shape.at(0) != world.size()) return false;
  const at::Tensor mine = reader.read_rows(*entry, world.rank(), 1).view(-1);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(mine);
  return true;
}

void write_training_state(const fs::path& folder, const Job& job, const RandomStates& random) {
  const Training& training = *job.model.shared().training;
  json state = {
      {"version", kStateVersion},
      {"step", job.optimizer ? job.optimizer.steps() : 0},
      {"strategy", training.strategy_name()},
      {"precision", training.options().precision},
      {"accumulate", job.accumulate},
      {"max_grad_norm", job.max_grad_norm},
      {"threads", at::get_num_threads()},
      {"saved_at", std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)}};
  if (job.optimizer) write_optimizer((folder / "optimizer.safetensors").string(), {}, job.optimizer);
  if (job.schedule) state["schedule"] = schedule_to_json(job.schedule);
  if (job.data) state["data"] = data_to_json(job.data);
  random.write(folder);
  write_file(folder / "state.json", state.dump(2) + "\n");
}

std::optional<int64_t> saved_at(const fs::path& folder) {
  const std::string path = (folder / "state.json").string();
  if (!fs::exists(path)) return std::nullopt;
  const json state = parse_json(read_file(path, 1 << 20), path);
  return reading(path, [&] { return state.at("saved_at").get<int64_t>(); });
}

SavedTraining::SavedTraining(fs::path folder, const Job& job)
    : folder_(std::move(folder)), path_((folder_ / "state.json").string()) {
  if (!fs::exists(path_))
    fail(WEFT_NOT_FOUND,
         "{} does not exist: {} holds no training state to resume from (save one with --save)", path_,
         folder_.parent_path().string());
  state_ = parse_json(read_file(path_, 1 << 20), path_);
  reading(path_, [&] { check(job); });
}

void SavedTraining::check(const Job& job) const {
  const int version = state_.at("version");
  if (version != kStateVersion)
    fail(WEFT_FAILED_PRECONDITION, "{}: training state of version {}, this Weft reads {}", path_, version,
         kStateVersion);
  const std::string precision = state_.at("precision");
  const std::string& own = job.model.shared().training->options().precision;
  if (precision != own)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: saved in precision {}, but this job's is {}; give the same (--precision)", path_, precision,
         own);
  if (job.optimizer && !fs::exists(folder_ / "optimizer.safetensors"))
    fail(WEFT_NOT_FOUND, "{} has no optimizer.safetensors to resume the optimizer from", folder_.string());
  const auto require_both = [&](const char* key, bool has) {
    if (state_.contains(key) == has) return;
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the job that was saved had {} {}, this one has {}; boost with the same parts", path_,
         has ? "no" : "a", key, has ? "one" : "none");
  };
  if (job.optimizer) {
    require_both("schedule", static_cast<bool>(job.schedule));
    require_both("data", static_cast<bool>(job.data));
  }
  if (job.schedule && state_.contains("schedule")) {
    optim::Scheduler schedule = job.schedule;
    const int64_t step = schedule.last_step();
    const std::string state = schedule.state();
    read_schedule(state_.at("schedule"), path_, schedule);
    schedule.restore(state);
    schedule.seek(step);
  }
  if (job.data && state_.contains("data")) check_data(job.data);
}

void SavedTraining::check_data(const data::Loader& loader) const {
  const json& saved = state_.at("data");
  const json own = data_to_json(loader);
  const auto refuse = [&](const std::string& text) {
    fail(WEFT_INVALID_ARGUMENT, "{}: the data position is {}; give the same data, batch size and seed", path_,
         text);
  };
  for (const char* key : {"samples", "batch_size"})
    if (saved.at(key) != own.at(key))
      refuse(fmt::format("of {} samples in batches of {}, but this job has {} in batches of {}",
                         saved.at("samples").dump(), saved.at("batch_size").dump(), own.at("samples").dump(),
                         own.at("batch_size").dump()));
  if (saved.at("fingerprint") != own.at("fingerprint"))
    refuse(fmt::format("of other data than this job's, with as many samples ({})", own.at("samples").dump()));
  const bool shuffle = saved.at("shuffle");
  if (shuffle != loader.options().shuffle)
    refuse(fmt::format("of {} samples, but this job {} them", shuffle ? "shuffled" : "unshuffled",
                       shuffle ? "does not shuffle" : "shuffles"));
  if (shuffle && saved.at("seed") != own.at("seed"))
    refuse(fmt::format("of samples shuffled by seed {}, but this job's is {}", saved.at("seed").dump(),
                       own.at("seed").dump()));
}

void SavedTraining::warn_of_differences(const Job& job) const {
  const auto warn = [&](const char* what, const json& own) {
    if (state_.value(what, json()) == own) return;
    log(WEFT_LOG_WARNING,
        fmt::format("{}: {} was {}, is {}: the run will differ from one that was not interrupted", path_,
                    what, state_.value(what, json()).dump(), own.dump()));
  };
  warn("accumulate", job.accumulate);
  warn("max_grad_norm", job.max_grad_norm);
  warn("threads", at::get_num_threads());
}

void SavedTraining::restore(Job& job, const World& world) const {
  if (job.optimizer) read_optimizer((folder_ / "optimizer.safetensors").string(), job.optimizer);
  if (job.schedule && state_.contains("schedule")) read_schedule(state_.at("schedule"), path_, job.schedule);
  if (job.data && state_.contains("data"))
    reading(path_, [&] { job.data.seek({state_.at("data").at("epoch"), state_.at("data").at("batch")}); });
  const bool same_ranks = RandomStates::restore(folder_, world);
  if (!world.is_master()) return;
  warn_of_differences(job);
  if (!same_ranks)
    log(WEFT_LOG_WARNING,
        fmt::format(
            "{} was saved by another number of ranks than {}: dropout will differ from a run that was "
            "not interrupted",
            folder_.string(), world.size()));
}

}  // namespace weft::checkpoint
