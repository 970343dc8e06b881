#include "training/forward_record.hpp"

namespace weft {

void ForwardRecord::finish_later_than(size_t index) {
  if (!fired_any_) open_ = entries_.size();
  fired_any_ = true;
  while (open_ > index + 1) {
    weft_unit& unit = *entries_[open_ - 1].unit;
    if (!begun_) training_->fire_before_backward(unit);
    begun_ = true;
    training_->fire_after_backward(unit);
    begun_ = false;
    --open_;
  }
}

void ForwardRecord::before_backward(size_t index) {
  finish_later_than(index);
  if (open_ != index + 1 || begun_) return;  // a second pass over the same graph
  begun_ = true;
  training_->fire_before_backward(*entries_[index].unit);
}

void ForwardRecord::after_backward(size_t index) {
  finish_later_than(index);
  if (open_ != index + 1) return;
  if (!begun_) training_->fire_before_backward(*entries_[index].unit);
  begun_ = false;
  open_ = index;
  training_->fire_after_backward(*entries_[index].unit);
}

void ForwardRecord::complete() {
  if (entries_.empty()) return;
  finish_later_than(0);
  if (open_ == 1) after_backward(0);
}

}  // namespace weft
