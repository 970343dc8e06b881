// The hooks of forward and backward: which units a forward ran, and what the strategy hears of it, in the
// order that sdk/include/weft/strategy.h promises.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "training/bindings.hpp"

namespace weft {

class ForwardRecord;

class Hooks {
 public:
  explicit Hooks(Bindings& bindings) : strategy_(bindings.strategy()) {}
  ~Hooks();
  Hooks(const Hooks&) = delete;

  // Makes the record of a forward whose backward the host begins with it, piece by piece.
  std::shared_ptr<ForwardRecord> make_record();
  // Makes the record of a forward in the caller's own loop, whose backward may come together with others'.
  std::shared_ptr<ForwardRecord> make_pending_record();

  // The forward of a unit; returns what leaves it beside the state.
  using Run = std::function<std::vector<at::Tensor*>(State&)>;
  // Runs `run`, the forward of `unit`, on `state` between its hooks. With a record, and where gradients are
  // recorded, boundaries in the graph report the unit's backward.
  void forward(weft_unit& unit, State& state, const std::shared_ptr<ForwardRecord>& record, const Run& run);
  // Runs the autograd engine from `roots` between the hooks of backward. `record`: of the only forward that
  // it goes through; null for all pending ones.
  void backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                const weft_backward_info& info, const std::shared_ptr<ForwardRecord>& record);

  // For records. Hooks of backward mean something only while the host runs the autograd engine.
  bool in_backward() const { return in_backward_; }
  void before_backward(weft_unit& unit) { strategy_.call(strategy_.api().before_backward, &unit); }
  void after_backward(weft_unit& unit) { strategy_.call(strategy_.api().after_backward, &unit); }
  // One backward through several forwards: fires what is missing of those after `record`, the latest first.
  void complete_later_forwards(const ForwardRecord& record);

 private:
  void complete(const std::shared_ptr<ForwardRecord>& record);

  Strategy& strategy_;
  std::vector<std::weak_ptr<ForwardRecord>> pending_;  // forwards whose backward is to come
  bool in_backward_ = false;
};

}  // namespace weft
