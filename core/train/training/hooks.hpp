// Calls the hooks of a strategy around forward and backward of each unit, in the order that
// sdk/include/weft/strategy.h promises.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trace/trace.hpp"
#include "training/bindings.hpp"

namespace weft {

class ForwardRecord;

class Hooks {
 public:
  explicit Hooks(Bindings& bindings)
      : strategy_(bindings.strategy()), shared_gradients_(bindings.shared_gradients()) {}
  ~Hooks();
  Hooks(const Hooks&) = delete;

  // Makes the record of a forward whose backward passes this same record. With `split`, finish_backward must
  // come after backward.
  std::shared_ptr<ForwardRecord> make_record(bool split = false);
  // Makes the record of a forward in the caller's own loop. One backward may go through several of these.
  std::shared_ptr<ForwardRecord> make_pending_record();

  // Computes a unit's forward on the state in place. Returns the tensors that leave it beside the state.
  using Run = std::function<std::vector<at::Tensor*>(State&)>;
  // Calls `run` on `state` between the forward hooks of `unit`, which belong to `pass`. With a record, and if
  // gradients are enabled, inserts boundaries into the autograd graph that fire the unit's backward hooks.
  void forward(weft_unit& unit, State& state, const weft_pass& pass,
               const std::shared_ptr<ForwardRecord>& record, const Run& run);
  // Runs the autograd engine from `roots`, between the hooks that begin and end backward. `record` is that of
  // the only forward it goes through, or null if it may go through any pending ones. `send` runs when the
  // hooks of all units have been called: it starts to send what other stages wait for, because a
  // synchronising backward then waits for these stages, to sum the gradients that they share.
  void backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                const weft_pass& pass, const std::shared_ptr<ForwardRecord>& record,
                const std::function<void()>& send = {});
  // Runs the second half of a split backward, which is a backward of its own to the strategy: the gradients
  // of weights that layers have left in the first.
  void finish_backward(const weft_pass& pass, const ForwardRecord& record);

  // The hooks of a micro-batch whose forward and backward are a CUDA graph. before_graph() calls the forward
  // hooks of all units. run_graph() calls begin_backward, then `launch`, which replays the graph, then
  // `after`, the hooks that Strategy::keep_hooks() kept during the capture, and end_backward.
  void before_graph(const std::vector<std::unique_ptr<weft_unit>>& units, const weft_pass& pass);
  void run_graph(const weft_pass& pass, const std::function<void()>& launch,
                 const Strategy::KeptHooks& after);

  // Used by ForwardRecord. Backward hooks are valid only while the host runs the autograd engine.
  bool in_backward() const { return in_backward_; }
  void before_backward(weft_unit& unit);
  void after_backward(weft_unit& unit);
  // Completes the pending forwards that ran after `record`, the latest first, when one backward goes through
  // several.
  void complete_later_forwards(const ForwardRecord& record);

 private:
  void complete(const std::shared_ptr<ForwardRecord>& record);
  // Calls `run` between the hooks that begin and end backward, and `send` as backward() does.
  void enclose(const weft_pass& pass, const std::function<void()>& run, const std::function<void()>& send);

  Strategy& strategy_;
  SharedGradients& shared_gradients_;
  std::vector<std::weak_ptr<ForwardRecord>> pending_;  // forwards whose backward is to come
  bool in_backward_ = false;
  std::optional<trace::Event> unit_of_trace_;  // the backward of a unit, while it is recorded
};

}  // namespace weft
