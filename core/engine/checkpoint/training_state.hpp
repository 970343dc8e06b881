// What a training needs beside its weights to go on exactly: optimizer, schedule, random generators, data
// position.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/optimizer_files.hpp"
#include "checkpoint/parts.hpp"
#include "weft/booster.hpp"

namespace weft::checkpoint {

inline constexpr const char* kStateFolder = "training_state";

// The schedule's file: who it is and where it stands. Reading throws if it is of another schedule.
nlohmann::json schedule_to_json(const optim::Scheduler& schedule);
void read_schedule(const nlohmann::json& saved, const std::string& path, optim::Scheduler& schedule);

// What the folder training_state/ of a model folder holds: state.json, the generators of all ranks, and in
// parts (parts.hpp) the optimizer's state, and the values where the strategy keeps them in another dtype than
// the model's, under the parameters' names.
struct TrainingSnapshot {
  nlohmann::json state;
  at::Tensor generators;  // (ranks, bytes)
  Pieces pieces;
};
// Collective. The pieces are views of what is trained.
TrainingSnapshot take_snapshot(const Job& job, const World& world, const std::vector<Shard>& shards);
// Collective; throws on every rank alike. All ranks see `folder`, which exists. `weights`: the master's path
// of the weights to which the state belongs, of which it keeps a fingerprint.
void write_training_state(const std::filesystem::path& folder, const std::string& weights,
                          const Communicator& ranks, const TrainingSnapshot& snapshot);

// When the folder was written, in nanoseconds of the system's clock; nothing if it holds no training state.
std::optional<int64_t> saved_at(const std::filesystem::path& folder);

// Such a folder in a model folder. Opening it throws if there is none, if it is damaged or of another
// version, if the weights beside it are not those it was saved with, and if the job has another optimizer,
// schedule, data, batch size or order of samples than the one that saved it; strategy, number of ranks and
// precision may be others. Nothing of the job has changed then.
class SavedTraining {
 public:
  SavedTraining(const std::filesystem::path& model_folder, const Job& job);
  // Returns what tells this training state and its weights from others, for ranks to compare.
  nlohmann::json identity() const;
  // Fills the shards with values and makes the optimizer's state; the rest of the job is as it was.
  void read(const std::vector<Shard>& shards);
  // Optimizer, schedule, data position and random generators; tells on the master what differs.
  void restore(Job& job, const World& world);

 private:
  void check(const Job& job) const;
  void check_data(const data::Loader& loader) const;
  void check_weights() const;
  void warn_of_differences(const Job& job) const;
  bool restore_generator(const World& world) const;  // false: of other axes
  std::string model_folder_;
  std::filesystem::path folder_;
  std::string path_;  // of state.json
  nlohmann::json state_;
  std::string weights_;  // fingerprint of the weights in the folder
  std::unique_ptr<PartsReader> parts_;
  std::unique_ptr<SavedOptimizer> optimizer_;
  const Bindings& training_;
};

}  // namespace weft::checkpoint
