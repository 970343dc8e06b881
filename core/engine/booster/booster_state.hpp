// The inside of a Booster.
#pragma once

#include <functional>
#include <future>

#include "booster/host_options.hpp"
#include "training/training.hpp"
#include "weft/booster.hpp"

namespace weft {

struct Booster::Shared {
  BoosterOptions options;
  std::string precision;  // resolved
  World world;

  // The job's model under this Booster's strategy, bound to memory, with values from `source` or initial
  // ones. Collective.
  struct Made {
    std::shared_ptr<Training> training;
    HostOptions host;
  };
  Made make_training(const Job& job, std::shared_ptr<ParameterSource> source) const;

  // As the strategy describes it, before anything is boosted. No collective.
  const Mesh& mesh();

  ~Shared();  // waits for a save under way

  // Runs `write` now, or in a thread with communicators of its own, which training does not use meanwhile.
  // Waits for the save before. Collective; throws on every rank alike.
  void save(bool background, std::function<void(const Communicator& ranks)> write);
  void finish_saving();

 private:
  std::optional<Mesh> mesh_;
  Communicator background_;  // made when it is needed first
  std::future<void> saving_;
};

}  // namespace weft
