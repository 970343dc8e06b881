#include "training/forward_record.hpp"

#include "weft/error.hpp"

namespace weft {

// Checks that backward may reach this boundary now. Outside Hooks::backward the strategy has not been told
// that a backward began.
void ForwardRecord::check_reachable(size_t index) const {
  if (hooks_ == nullptr)
    throw Error(WEFT_FAILED_PRECONDITION,
                "backward through a model whose training has ended; keep the model until backward is done");
  if (!hooks_->in_backward())
    throw Error(WEFT_FAILED_PRECONDITION,
                "backward through a boosted model must go through Booster::backward(loss, optimizer), "
                "not the tensor's own backward()");
  if (fired_any_ && open_ <= index)
    throw Error(WEFT_FAILED_PRECONDITION, "unit " + entries_[index].unit->unit->name() +
                                              ": a second backward through one "
                                              "forward; add up its losses and call backward once");
}

void ForwardRecord::call(void (Hooks::*hook)(weft_unit& unit), weft_unit& unit) {
  (hooks_->*hook)(unit);
  if (deferred_ != nullptr) deferred_->defer([hooks = hooks_, hook, &unit] { (hooks->*hook)(unit); });
}

void ForwardRecord::finish_later_than(size_t index) {
  if (!fired_any_) {
    hooks_->complete_later_forwards(*this);
    open_ = entries_.size();
    fired_any_ = true;
  }
  while (open_ > index + 1) {
    weft_unit& unit = *entries_[open_ - 1].unit;
    if (!begun_) call(&Hooks::before_backward, unit);
    begun_ = true;
    call(&Hooks::after_backward, unit);
    begun_ = false;
    --open_;
  }
}

void ForwardRecord::before_backward(size_t index) {
  check_reachable(index);
  finish_later_than(index);
  begun_ = true;
  call(&Hooks::before_backward, *entries_[index].unit);
}

void ForwardRecord::after_backward(size_t index) {
  check_reachable(index);
  finish_later_than(index);
  if (!begun_) call(&Hooks::before_backward, *entries_[index].unit);
  begun_ = false;
  open_ = index;
  call(&Hooks::after_backward, *entries_[index].unit);
}

void ForwardRecord::complete() {
  if (entries_.empty()) return;
  finish_later_than(0);
  if (open_ > 0) after_backward(0);
}

}  // namespace weft
