// Compares what a strategy does in one step with what it must do (weft/strategy.h): layers compute with the
// published values, and the published gradients are the sums over all ranks that share them. A strategy that
// breaks this trains without an error, to another model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/collective_check.hpp"
#include "training/known_parts.hpp"

namespace weft {

class StepCheck {
 public:
  // Begins before the first micro-batch, when no gradient is pending. Collective.
  explicit StepCheck(Bindings& bindings);
  ~StepCheck();
  StepCheck(const StepCheck&) = delete;

  // Compares the values that layers are about to compute with: after before_forward of the unit.
  void see(const weft_unit& unit);
  // Compares the gradients, before the update. Throws INTERNAL on every rank, naming the strategy and the
  // parameter, if anything differs. Collective.
  void finish();

 private:
  // The axes over which the strategy sums the gradient of `param`.
  Axes summed_axes(const weft_param& param) const;
  std::vector<Sketch> sum_local_gradients();
  void compare_gradient(const weft_param& param, const Sketch& published, const Sketch& expected);
  void watch(weft_param& param);

  Bindings& bindings_;
  const comm::CollectiveCheck collectives_;
  std::vector<KnownPart> published_;  // by parameter, as the step begins
  std::vector<bool> seen_;            // by parameter
  std::vector<Sketch> gradients_;     // by parameter, of this rank
  std::vector<std::pair<const weft_param*, unsigned>> hooks_;
  std::string problem_;  // the first; empty: none
};

}  // namespace weft
