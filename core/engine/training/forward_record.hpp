// The units that one forward ran, and which of their backward hooks have fired. Hooks come in strict reverse
// order whatever the graph does: before one unit's hook fires, what is missing for later units is made up.
#pragma once

#include <vector>

#include "training/hooks.hpp"

namespace weft {

class ForwardRecord {
 public:
  explicit ForwardRecord(Hooks& hooks) : hooks_(&hooks) {}

  // In the order of execution.
  void add(weft_unit& unit) { entries_.push_back({&unit}); }
  size_t size() const { return entries_.size(); }

  // Called by the boundaries of entry `index`.
  void before_backward(size_t index);
  void after_backward(size_t index);
  // Fires whatever has not fired.
  void complete();
  bool fired_any() const { return fired_any_; }
  // The training ends before the graph: a backward is an error from now on.
  void abandon() { hooks_ = nullptr; }

 private:
  struct Entry {
    weft_unit* unit;
  };
  // Entries from open_ on are finished; entry open_ - 1 may have had its first hook.
  void finish_later_than(size_t index);
  void check_reachable(size_t index) const;
  Hooks* hooks_;
  std::vector<Entry> entries_;
  size_t open_ = SIZE_MAX;  // set to size() by the first hook
  bool begun_ = false;      // entry open_ - 1 has had before_backward
  bool fired_any_ = false;
};

}  // namespace weft
