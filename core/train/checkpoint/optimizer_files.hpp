// Optimizers in checkpoints: groups, counts and options as JSON, the state of every parameter as tensors
// "<parameter>/<name of the state>".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "files/piece.hpp"
#include "optim/optimizer_state.hpp"

namespace weft::checkpoint {

inline constexpr const char* kOptimizerKey = "weft.optimizer";  // metadata of files of save_optimizer

struct OptimizerSnapshot {
  nlohmann::json description;
  Pieces pieces;  // views of what is trained
};
// Throws unless the optimizer is boosted. `ranks`: of the optimizer's training.
OptimizerSnapshot take_snapshot(const optim::Optimizer& optimizer, const Communicator& ranks);

// What an optimizer is to become: nothing changes before apply().
class SavedOptimizer {
 public:
  // Throws if rule, groups, parameters or shapes are others than the optimizer's, or if states are missing.
  // `path` is for messages.
  SavedOptimizer(const nlohmann::json& saved, const std::vector<Entry>& entries,
                 const optim::Optimizer& optimizer, const std::string& path);
  // Makes the states of these shards, in the dtype of their values; the pieces are to be filled.
  Pieces wanted_states(const std::vector<Shard>& shards);
  void apply(optim::Optimizer& optimizer);

 private:
  void read_groups(const nlohmann::json& saved);
  void check_entries(const std::vector<Entry>& entries);

  std::string path_;
  const optim::Optimizer::Shared& shared_;
  int64_t steps_ = 0;
  nlohmann::json scaler_;  // null: none was saved, or none is to go on
  std::vector<optim::Group> groups_;
  std::map<std::string, int64_t> parameter_steps_;
  std::map<std::string, std::map<std::string, Entry>> entries_;  // by parameter and name of the state
  std::map<uint32_t, optim::ParameterState> parameters_;
  std::map<std::pair<uint32_t, int64_t>, optim::States> ranges_;
};

// A file or folder of Booster::save_optimizer.
void read_optimizer(const std::string& path, optim::Optimizer& optimizer);

}  // namespace weft::checkpoint
