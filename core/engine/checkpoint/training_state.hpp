// What a training needs beside its weights to go on exactly: optimizer, schedule, random generators, data position.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/format.hpp"
#include "weft/booster.hpp"

namespace weft::checkpoint {

// Optimizer state: one entry "<parameter>/<name>" for each state tensor, of the parameter's shape, and the groups as JSON in
// the metadata. Every rank calls read; the master calls write.
void write_optimizer(const std::string& path, const WriteOptions& options, const optim::Optimizer& optimizer);
void read_optimizer(const std::string& path, optim::Optimizer& optimizer);

// The folder training_state/ of a model folder. Random generators of all ranks are gathered: collective.
class RandomStates {
 public:
  explicit RandomStates(const World& world);                    // gathers
  void write(const std::filesystem::path& folder) const;        // on the master
  // Sets this rank's generator; false if the state is of another number of ranks.
  static bool restore(const std::filesystem::path& folder, const World& world);

 private:
  at::Tensor states_;  // (ranks, bytes)
};

struct Progress {
  int64_t step = 0;
};
void write_training_state(const std::filesystem::path& folder, const Job& job, const Progress& progress, const RandomStates& random,
                          const std::string& strategy);
Progress read_training_state(const std::filesystem::path& folder, Job& job, const World& world);

}  // namespace weft::checkpoint
