// What a parameter's memory in a chunk is good for, as Colossal-AI's Gemini names it.
#pragma once

#include <cstdint>

namespace weft::gemini {

enum class TensorState : uint8_t {
  kFree,               // the chunk is not gathered
  kHold,               // has its value, nobody computes with it
  kCompute,            // the unit that runs computes with it
  kHoldAfterBackward,  // one of its units has been backward, its gradient is to come or there is none
  kReadyForReduce      // its place holds the gradient
};
constexpr int kTensorStates = 5;

inline const char* name(TensorState state) {
  constexpr const char* kNames[] = {"FREE", "HOLD", "COMPUTE", "HOLD_AFTER_BWD", "READY_FOR_REDUCE"};
  return kNames[static_cast<int>(state)];
}

// The original's transitions, and two more: a tied parameter may be evicted between its units' backwards
// (HOLD_AFTER_BWD to FREE), and one that was not used is held again when its chunk was reduced (to HOLD).
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

}  // namespace weft::gemini
