// The objects behind the opaque pointers of the C ABI, and the shards that strategies publish.
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
class ForwardRecord;
}  // namespace weft

// A parameter of the model and the part of it that this rank holds.
struct weft_param {
  weft::Bindings* bindings = nullptr;
  std::string name;
  uint32_t index = 0;              // among all parameters of the model
  uint32_t place = 0;              // among those of this rank, which is the index that strategies see
  at::Tensor tensor;               // the module's own tensor; the strategy binds its storage
  std::vector<uint32_t> units;     // the units that use it, ascending
  std::vector<int64_t> shape;      // the whole shape, as files have it
  std::vector<int64_t> local;      // the shape of the part that the plan gives this rank
  weft::Cut cut;                   // the indices of that part
  std::vector<weft::Run> counted;  // the elements of the flattened part that no earlier part holds
  uint32_t num_parts = 1;          // the number of places along partition_axes, each of which has a part
  uint32_t part = 0;               // the first place that has the same part as this rank
  uint32_t partition_axes = 0;
  uint32_t gradient_axes = 0;
  bool frozen = false;
  bool here = true;            // a unit that runs on this rank uses it; false: the part has no elements
  bool across_stages = false;  // units on other pipeline stages use it, too
  bool bound = false;
  bool touched = false;  // it got a gradient since the last update
  int64_t count() const;
  at::ScalarType master_dtype() const;  // dtype of the values that the optimizer updates; frozen: its own

  weft_param() = default;
  weft_param(const weft_param&) = delete;
  ~weft_param();  // removes hook and gradient from the module's tensor, which lives on
};

struct weft_unit {
  weft::Bindings* bindings = nullptr;
  uint32_t index = 0;
  weft::nn::Unit* unit = nullptr;
  std::vector<weft_param*> params;
  bool recompute = false;
  bool here = true;    // it runs on this rank
  uint32_t place = 0;  // among those that do, which is the index that strategies see
};

struct weft_state {
  weft::State state;
  std::shared_ptr<weft::ForwardRecord> record = {};  // of the units that ran on it, see weft::Piece
};

struct weft_comm {
  weft::Communicator communicator;
  std::vector<std::unique_ptr<weft_comm>> subsets;
};

namespace weft {

// A published range of a parameter.
struct Shard {
  weft_param* param = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
  at::Tensor value, gradient;   // gradient may be undefined
  at::Tensor working;           // what the layers use, to be rounded from `value`; may be undefined
  uint32_t partition_axes = 0;  // over which the plan or the strategy splits it
  uint32_t divided_axes = 0;    // the open axes over which the strategy alone splits it
  bool copy = false;            // a copy of a range that another rank counts, as of tied weights
  bool counted = false;         // the ranks that hold this range count it, each its share
  // The elements that this rank counts in sums over all ranks. No other rank counts them.
  int64_t counted_begin = 0;
  int64_t counted_count = 0;
};

// A published range of a tensor of the strategy's own, which `range.value` holds.
struct Kept {
  std::string name;
  Shard range;
};

}  // namespace weft
