// The table that `weft train` prints at the end: where the time went, and how much was trained in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/products.hpp"
#include "trace/phases.hpp"
#include "weft/trainer.hpp"
#include "weft/world.hpp"

namespace weft {
class Bindings;
}

namespace weft::command {

class TimeTable final : public Hook {
 public:
  // `model` is not boosted yet. `peak` is --peak-tflops, or empty: the TFLOP/s of one rank's device, or
  // "measure". Throws INVALID_ARGUMENT for anything else, and if nothing can be compared with it because the
  // operations of the model are not known.
  TimeTable(const Model& model, const std::string& peak, const World& world);
  std::string name() const override { return "time_table"; }
  void begin(Trainer& trainer) override;
  void after_step(Trainer& trainer) override;
  void before_evaluation(Trainer& trainer) override;
  void after_evaluation(Trainer& trainer) override;
  // Prints the times since begin, as the mean over the ranks, if a step was counted. Measures the peak if
  // that was asked for. Collective.
  void print(const Bindings& bindings) const;

 private:
  // Returns how many model operations a rank computed in `seconds`, and which part of the peak that is.
  std::string use_of_peak(double seconds, const Bindings& bindings) const;

  Model model_;
  std::optional<plan::Products> products_;
  std::optional<double> peak_tflops_;
  bool measures_peak_ = false;
  World world_;
  trace::PhaseTimes begin_{}, evaluation_begin_{}, evaluated_{};
  int64_t steps_ = 0, tokens_ = 0;
  double positions_ = 0, padding_ = 0;  // of this rank's attention masks
  double operations_ = 0;               // of all ranks
  const char* unit_ = "samples";
};

}  // namespace weft::command
