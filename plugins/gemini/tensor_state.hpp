// The states of a parameter in a chunk, with the names of Colossal-AI's Gemini.
#pragma once

#include <cstdint>

namespace weft::plugin::gemini {

enum class TensorState : uint8_t {
  kFree,               // the chunk is not gathered
  kHold,               // it has its value, and no unit uses it now
  kCompute,            // the current unit uses it
  kHoldAfterBackward,  // a unit that uses it has run backward; its gradient is not ready or there is none
  kReadyForReduce      // its memory holds the gradient
};
constexpr int kTensorStates = 5;

inline const char* name(TensorState state) {
  constexpr const char* kNames[] = {"FREE", "HOLD", "COMPUTE", "HOLD_AFTER_BWD", "READY_FOR_REDUCE"};
  return kNames[static_cast<int>(state)];
}

// Returns true for the transitions of Colossal-AI, and for two more: a tied parameter may be evicted between
// the backwards of its units (HOLD_AFTER_BWD to FREE), and one that was not used is held again after its
// chunk was reduced (HOLD_AFTER_BWD to HOLD).
inline bool may_become(TensorState from, TensorState to) {
  using enum TensorState;
  switch (from) {
    case kFree:
      return to == kHold || to == kCompute;
    case kHold:
      return to == kFree || to == kCompute;
    case kCompute:
      return to == kHold || to == kHoldAfterBackward;
    case kHoldAfterBackward:
      return to == kCompute || to == kReadyForReduce || to == kHold || to == kFree;
    case kReadyForReduce:
      return to == kHold;
  }
  return false;
}

}  // namespace weft::plugin::gemini
