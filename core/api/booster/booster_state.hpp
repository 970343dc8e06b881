// The private state of a Booster.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "booster/host_options.hpp"
#include "files/background_save.hpp"
#include "training/training.hpp"
#include "weft/booster.hpp"

namespace weft {

struct ChosenStrategy;

struct Booster::Shared {
  BoosterOptions options;
  std::string precision;  // resolved
  World world;

  // Makes a training of the job's model under this Booster's strategy, with values from `source` or initial
  // values. Throws on every rank if the ranks' jobs differ; `content` is the fingerprint of the source, if it
  // has one. Collective.
  struct Made {
    std::shared_ptr<Training> training;
    HostOptions host;
  };
  Made make_training(const Job& job, std::shared_ptr<ParameterSource> source,
                     const std::string& content = "") const;

  // Returns the mesh that the strategy describes, also before anything is boosted. Not collective.
  const Mesh& mesh();

  // Writes a training without a comparison before. Collective.
  void write_training(const Job& job, const std::string& path, const SaveOptions& save_options);
  // Runs `write` now, or in the background. Collective; throws on every rank alike.
  void save(bool background, std::function<void(const Communicator& ranks)> write);
  std::atomic<std::chrono::nanoseconds> last_save_time = std::chrono::nanoseconds::zero();
  checkpoint::BackgroundSave background_save;

 private:
  // Returns what must be the same on all ranks.
  nlohmann::json facts_of(const Job& job, const ChosenStrategy& strategy, const ChosenLoss& loss,
                          const std::string& content) const;

  std::optional<Mesh> mesh_;
};

}  // namespace weft
