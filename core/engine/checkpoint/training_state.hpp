// What a training needs beside its weights to go on exactly: optimizer, schedule, random generators, data
// position.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/format.hpp"
#include "weft/booster.hpp"

namespace weft::checkpoint {

// Optimizer state: one entry "<parameter>/<name>" for each state tensor, of the parameter's shape, and the
// groups as JSON in the metadata. Every rank calls read; the master calls write. Reading replaces options and
// rates by the saved ones, and throws if rule, groups, parameters, shapes or precision are others, before
// anything is changed.
void write_optimizer(const std::string& path, const WriteOptions& options, const optim::Optimizer& optimizer);
void read_optimizer(const std::string& path, optim::Optimizer& optimizer);

// The schedule's file: who it is and where it stands. Reading throws if it is of another schedule.
nlohmann::json schedule_to_json(const optim::Scheduler& schedule);
void read_schedule(const nlohmann::json& saved, const std::string& path, optim::Scheduler& schedule);

// The generators of all ranks. Collective.
class RandomStates {
 public:
  explicit RandomStates(const World& world);              // gathers
  void write(const std::filesystem::path& folder) const;  // on the master
  // Sets this rank's generator; false if the state is of another number of ranks.
  static bool restore(const std::filesystem::path& folder, const World& world);

 private:
  at::Tensor states_;  // (ranks, bytes)
};

// Writes the folder training_state/ of a model folder.
void write_training_state(const std::filesystem::path& folder, const Job& job, const RandomStates& random);

// When the folder was written, in nanoseconds of the system's clock; nothing if it holds no training state.
std::optional<int64_t> saved_at(const std::filesystem::path& folder);

// Such a folder. Opening it throws if there is none, if it is damaged or of another version, and if the job
// has another precision, schedule, data, batch size or order of samples than the one that saved it.
class SavedTraining {
 public:
  SavedTraining(std::filesystem::path folder, const Job& job);
  // Optimizer, schedule, data position and random generators.
  void restore(Job& job, const World& world) const;

 private:
  void check(const Job& job) const;
  void check_data(const data::Loader& loader) const;
  void warn_of_differences(const Job& job) const;
  std::filesystem::path folder_;
  std::string path_;  // of state.json
  nlohmann::json state_;
};

}  // namespace weft::checkpoint
