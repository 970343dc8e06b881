// What a training needs beside its weights to go on exactly: optimizer, schedule, random generators, data
// position.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/optimizer_files.hpp"
#include "files/parts.hpp"
#include "training/bindings.hpp"
#include "training/weight_average.hpp"
#include "weft/data/dataset.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::checkpoint {

inline constexpr const char* kStateFolder = "training_state";

// The schedule's file: who it is and where it stands. Reading throws if it is of another schedule.
nlohmann::json schedule_to_json(const optim::Scheduler& schedule);
void read_schedule(const nlohmann::json& saved, const std::string& path, optim::Scheduler& schedule);

// What a training state is of. The optimizer, the schedule and the data may be empty.
struct Trained {
  Bindings& bindings;
  optim::Optimizer optimizer;
  optim::Scheduler schedule;
  data::Loader data;
  int64_t accumulate = 1;
  double max_grad_norm = 0;
  std::string configuration;  // what was asked for, for job.yaml; empty: there is no such file
  std::map<std::string, std::string> hook_states;  // of what takes part in the training, by name
  std::shared_ptr<WeightAverage> average = {};     // null without one
};

// What the folder training_state/ of a model folder holds: state.json, job.yaml, the generators of all ranks,
// and in parts (parts.hpp) the optimizer's state, the values where the strategy keeps them in another dtype
// than the model's, under the parameters' names, and tensors of the strategy's own, as
// "strategy/STRATEGY/NAME/PARAMETER".
struct TrainingSnapshot {
  nlohmann::json state;
  std::string configuration;
  at::Tensor generators;  // (ranks, bytes)
  Pieces pieces;
};
// Collective. The pieces are views of what is trained.
TrainingSnapshot take_snapshot(const Trained& trained, const World& world, const std::vector<Shard>& shards,
                               const std::vector<Kept>& kept);
// Collective; throws on every rank alike. All ranks see `folder`, which exists. `weights`: the master's path
// of the weights to which the state belongs, written in `format`, of which it keeps a fingerprint. The state
// itself has the default format.
void write_training_state(const std::filesystem::path& folder, const std::string& weights,
                          const std::string& format, const Communicator& ranks,
                          const TrainingSnapshot& snapshot);

// Returns what state.json of such a folder has: "saved_at", when it was written, in nanoseconds of the
// system's clock; "step"; "device", the kind of device on which the training ran ("cpu"), and more, which a
// state of an earlier version may lack. Nothing if the folder holds no training state.
std::optional<nlohmann::json> saved_state(const std::filesystem::path& folder);

// Such a folder in a model folder. Opening it throws if there is none, if it is damaged or of another
// version, if the weights beside it are not those it was saved with, and if the optimizer, schedule,
// data, batch size or order of samples are others than those that were saved; strategy, number of ranks and
// precision may be others. Nothing has changed then.
class SavedTraining {
 public:
  SavedTraining(const std::filesystem::path& model_folder, Trained trained);
  // Returns what tells this training state and its weights from others, for ranks to compare.
  nlohmann::json identity() const;
  // Fills the shards with values, and the strategy's own tensors as far as they were saved, which it says on
  // the master, and makes the optimizer's state; all else is as it was.
  void read(const std::vector<Shard>& shards, const std::vector<Kept>& kept);
  // Optimizer, schedule, data position and random generators; tells on the master what differs.
  void restore(const World& world);
  // Returns what was saved as Trained::hook_states.
  std::map<std::string, std::string> hook_states() const;

 private:
  void check() const;
  void check_data() const;
  void check_weights() const;
  void warn_of_differences() const;
  void read_kept(const std::vector<Kept>& kept) const;
  bool restore_generator(const World& world) const;  // false: of other axes
  Trained trained_;
  std::string model_folder_;
  std::filesystem::path folder_;
  std::string path_;  // of state.json
  nlohmann::json state_;
  std::string weights_;  // fingerprint of the weights in the folder
  std::unique_ptr<PartsReader> parts_;
  std::unique_ptr<SavedOptimizer> optimizer_;
  bool averaged_ = false;  // the averaged weights were read
};

}  // namespace weft::checkpoint
