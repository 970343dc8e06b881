// Where the time of a thread goes, by phase of a training. Always counted: to enter or leave a phase costs
// one read of the clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "trace/trace.hpp"

namespace weft::trace {

enum class Phase : uint8_t {
  kOther,
  kForward,
  kBackward,  // with recomputation
  kOptimizer,
  kCommunication,  // the host waits for a collective or message
  kDevice,         // the host waits for what the device has to do
  kData,
  kSaving,
};
inline constexpr size_t kPhases = 8;
using PhaseTimes = std::array<Time, kPhases>;  // in the order of the enumerators

inline double seconds(Time time) {
  return static_cast<double>(time) / 1e9;
}

// The time that a thread has spent in each phase since it began. Each moment counts for one phase, the
// innermost, but waiting while data is loaded or a checkpoint saved counts as that.
class PhaseClock {
 public:
  static PhaseClock& of_thread() {
    static thread_local constinit PhaseClock clock;
    return clock;
  }

  // Enters a phase and returns the one that is left.
  Phase enter(Phase phase) {
    const Time time = now();
    spent_[static_cast<size_t>(phase_)] += time - since_;
    since_ = time;
    return std::exchange(phase_, phase);
  }
  Phase phase() const { return phase_; }
  // Returns the times up to now. Only differences between two calls mean something.
  PhaseTimes times() {
    enter(phase_);
    return spent_;
  }

 private:
  constexpr PhaseClock() = default;
  Phase phase_ = Phase::kOther;
  Time since_ = 0;
  PhaseTimes spent_{};
};

// The phase of this thread while this object lives.
class InPhase {
 public:
  explicit InPhase(Phase phase) : before_(clock().phase()) {
    if (before_ != Phase::kData && before_ != Phase::kSaving) clock().enter(phase);
  }
  ~InPhase() {
    if (clock().phase() != before_) clock().enter(before_);
  }
  InPhase(const InPhase&) = delete;

 private:
  static PhaseClock& clock() { return PhaseClock::of_thread(); }

  const Phase before_;
};

}  // namespace weft::trace
