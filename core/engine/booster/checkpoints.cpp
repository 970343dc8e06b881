// Booster's checkpoints: the master writes, every rank learns how it went.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "booster/booster_state.hpp"
#include "booster/model_state.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/training_state.hpp"
#include "weft/booster.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStateFolder = "training_state";

Training& training_of(const Model& model, const char* what) {
  if (model.shared().training == nullptr) fail(WEFT_FAILED_PRECONDITION, "{} needs a boosted model", what);
  return *model.shared().training;
}

// Runs `action` on the master; a failure there is thrown on every rank, after all have come here.
template <class Action>
void on_master(const World& world, const Action& action) {
  std::string outcome = "0 ";
  if (world.is_master()) {
    try {
      action();
    } catch (const Error& e) {
      outcome = fmt::format("{} {}", e.status(), e.what());
    } catch (const std::exception& e) {
      outcome = fmt::format("{} {}", WEFT_INTERNAL, e.what());
    }
  }
  outcome = world.communicator().broadcast_text(outcome, 0);
  const weft_status status = std::stoi(outcome);
  if (status != WEFT_OK) throw Error(status, outcome.substr(outcome.find(' ') + 1));
}

checkpoint::WriteOptions write_options(const SaveOptions& options) {
  if (options.size_per_shard <= 0)
    fail(WEFT_INVALID_ARGUMENT, "size_per_shard is {} MB, must be positive", options.size_per_shard);
  return {options.shard, options.prefix, options.size_per_shard, options.use_safetensors, {}};
}

// One file rather than a folder, by the path's extension.
bool names_a_file(const std::string& path) {
  for (const char* extension : {".safetensors", ".bin", ".pt", ".pth"})
    if (fs::path(path).extension() == extension) return !fs::is_directory(path);
  return false;
}

// The configuration as saved: the class that from_pretrained is to make.
std::string saved_config(const Model& model) {
  nlohmann::json config = nlohmann::json::parse(model.config().dump());
  config["architectures"] = {model.architecture()};
  return config.dump(2) + "\n";
}

void write_model_folder(const fs::path& folder, const Model& model, const SaveOptions& options) {
  checkpoint::write_weights(folder.string(), write_options(options), training_of(model, "save_model"));
  checkpoint::write_file(folder / "config.json", saved_config(model));
}

// Other files of the folder (a tokenizer, step-N/) stay; weights, configuration and training state are
// replaced.
auto keeps(const std::string& prefix) {
  return [prefix](const fs::path& name) {
    return name != "config.json" && name != kStateFolder &&
           !checkpoint::is_weight_file(name.string(), prefix);
  };
}

}  // namespace

void Booster::save_model(const Model& model, const std::string& path, const SaveOptions& options) {
  Training& training = training_of(model, "save_model");
  on_master(world(), [&] {
    if (names_a_file(path)) {
      checkpoint::write_weights(path, write_options(options), training);
      return;
    }
    checkpoint::StagedFolder folder(path, keeps(options.prefix));
    write_model_folder(folder.path(), model, options);
    folder.publish();
  });
}

void Booster::load_model(Model& model, const std::string& path, bool strict) {
  if (model.shared().training != nullptr) {
    checkpoint::read_weights(path, *model.shared().training, strict);
    return;
  }
  const checkpoint::Reader reader(path);
  const checkpoint::WeightMap map(reader, model.module());
  if (strict) map.require_exact(path, model.module());
  model.shared().weights = path;
}

void Booster::save_optimizer(const optim::Optimizer& optimizer, const std::string& path,
                             const SaveOptions& options) {
  on_master(world(), [&] {
    if (!options.shard) {
      checkpoint::write_optimizer(path, write_options(options), optimizer);
      return;
    }
    checkpoint::StagedFolder folder(path, [&](const fs::path& name) {
      return !checkpoint::is_weight_file(name.string(), options.prefix);
    });
    checkpoint::write_optimizer(folder.path().string(), write_options(options), optimizer);
    folder.publish();
  });
}

void Booster::load_optimizer(optim::Optimizer& optimizer, const std::string& path) {
  checkpoint::read_optimizer(path, optimizer);
}

void Booster::save_lr_scheduler(const optim::Scheduler& scheduler, const std::string& path) {
  on_master(world(), [&] {
    nlohmann::json state = checkpoint::schedule_to_json(scheduler);
    state["weft"] = "lr_scheduler";
    checkpoint::replace_file(path, state.dump() + "\n");
  });
}

void Booster::load_lr_scheduler(optim::Scheduler& scheduler, const std::string& path) {
  const nlohmann::json state = parse_json(read_file(path, 1 << 16), path);
  if (!state.is_object() || !state.contains("weft") || state["weft"] != "lr_scheduler")
    fail(WEFT_INVALID_ARGUMENT, "{} holds no learning-rate schedule of Weft", path);
  checkpoint::read_schedule(state, path, scheduler);
}

void Booster::save_training(const Job& job, const std::string& path, const SaveOptions& options) {
  training_of(job.model, "save_training");
  const checkpoint::RandomStates random(world());
  on_master(world(), [&] {
    checkpoint::StagedFolder folder(path, keeps(options.prefix));
    write_model_folder(folder.path(), job.model, options);
    fs::create_directory(folder.path() / kStateFolder);
    checkpoint::write_training_state(folder.path() / kStateFolder, job, random);
    folder.publish();
  });
}

void Booster::load_training(Job& job, const std::string& path) {
  Training& training = training_of(job.model, "load_training");
  const checkpoint::SavedTraining saved(fs::path(path) / kStateFolder, job);
  checkpoint::read_weights(path, training, true);
  saved.restore(job, world());
}

}  // namespace weft
