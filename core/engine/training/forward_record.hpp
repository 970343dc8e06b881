// Records the units that one forward ran and which of their backward hooks have fired. Hooks fire in strict
// reverse order, whatever order autograd takes: before a unit's hook fires, the hooks of later units that
// have not fired yet fire first.
#pragma once

#include <vector>

#include "training/hooks.hpp"

namespace weft {

class ForwardRecord {
 public:
  explicit ForwardRecord(Hooks& hooks) : hooks_(&hooks) {}

  // Appends a unit. Units are added in the order in which they run.
  void add(weft_unit& unit) { entries_.push_back({&unit}); }
  size_t size() const { return entries_.size(); }

  // Fire the hooks of entry `index`. The boundaries of its unit in the autograd graph call them.
  void before_backward(size_t index);
  void after_backward(size_t index);
  // Fires every hook that has not fired.
  void complete();
  bool fired_any() const { return fired_any_; }
  // Detaches the record from a training that ends before the graph does. A later backward is an error.
  void abandon() { hooks_ = nullptr; }

 private:
  struct Entry {
    weft_unit* unit;
  };
  // Fires the missing hooks of all entries after `index`.
  void finish_later_than(size_t index);
  void check_reachable(size_t index) const;
  Hooks* hooks_;
  std::vector<Entry> entries_;
  size_t open_ = SIZE_MAX;  // entries from here on are finished; the first hook sets it to size()
  bool begun_ = false;      // before_backward of entry open_ - 1 has fired
  bool fired_any_ = false;
};

}  // namespace weft
