// Records the units that one forward ran and which of their backward hooks have fired. Hooks fire in strict
// reverse order, whatever order autograd takes: before a unit's hook fires, the hooks of later units that
// have not fired yet fire first. If backward is split, the hooks of its second half fire around what layers
// have left to it while those of the first half fired.
#pragma once

#include <memory>
#include <vector>

#include "autograd/deferred_gradients.hpp"
#include "training/hooks.hpp"

namespace weft {

class ForwardRecord {
 public:
  // With `split`, backward has a second half.
  explicit ForwardRecord(Hooks& hooks, bool split = false)
      : hooks_(&hooks), deferred_(split ? std::make_shared<DeferredGradients>() : nullptr) {}

  // Appends a unit. Units are added in the order in which they run.
  void add(weft_unit& unit) { entries_.push_back({&unit}); }
  size_t size() const { return entries_.size(); }
  const std::shared_ptr<DeferredGradients>& deferred() const { return deferred_; }  // null unless split

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
  // Calls a hook, and leaves the same call to the second half if there is one.
  void call(void (Hooks::*hook)(weft_unit& unit), weft_unit& unit);
  Hooks* hooks_;
  const std::shared_ptr<DeferredGradients> deferred_;
  std::vector<Entry> entries_;
  size_t open_ = SIZE_MAX;  // entries from here on are finished; the first hook sets it to size()
  bool begun_ = false;      // before_backward of entry open_ - 1 has fired
  bool fired_any_ = false;
};

}  // namespace weft
