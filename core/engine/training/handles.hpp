// What strategies hold by an opaque pointer, and the ranges that they publish.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/cut.hpp"
#include "weft/nn/unit.hpp"
#include "weft/state.hpp"
#include "weft/training.h"
#include "weft/world.hpp"

namespace weft {
class Bindings;
}  // namespace weft

// A parameter as strategies see it.
struct weft_param {
  weft::Bindings* bindings = nullptr;
  std::string name;
  uint32_t index = 0;
  at::Tensor tensor;               // the module's own; its storage is bound by the strategy
  std::vector<uint32_t> units;     // that use it, ascending
  std::vector<int64_t> shape;      // whole, as files have it
  std::vector<int64_t> local;      // of the part that the plan leaves to this rank
  weft::Cut cut;                   // which part that is
  std::vector<weft::Run> counted;  // elements of the flattened part that no part before this one holds
  uint32_t partition_axes = 0;
  uint32_t gradient_axes = 0;
  bool frozen = false;
  bool bound = false;
  bool touched = false;  // got a gradient since the last update
  int64_t count() const;
  at::ScalarType master_dtype() const;  // that the optimizer updates; of a frozen one its own

  weft_param() = default;
  weft_param(const weft_param&) = delete;
  ~weft_param();  // the module's tensor outlives it: takes the hook and the gradient away
};

struct weft_unit {
  weft::Bindings* bindings = nullptr;
  uint32_t index = 0;
  weft::nn::Unit* unit = nullptr;
  std::vector<weft_param*> params;
  bool recompute = false;
};

struct weft_state {
  weft::State state;
};

struct weft_comm {
  weft::Communicator communicator;
  std::vector<std::unique_ptr<weft_comm>> subsets;
};

namespace weft {

// One published range, as the host uses it.
struct Shard {
  weft_param* param = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
  at::Tensor value, gradient;   // gradient may be undefined
  uint32_t partition_axes = 0;  // the plan's and the strategy's
  bool copy = false;            // a tied duplicate that is counted elsewhere
  int64_t counted_begin =
      0;  // the part that this rank counts in sums over all ranks: no other rank counts it
  int64_t counted_count = 0;
};

}  // namespace weft
