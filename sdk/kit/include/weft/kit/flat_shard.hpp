// Parameters as views of one flat buffer of which each rank of a group keeps one part. The buffer has memory
// only while it is gathered. A rank keeps the master values and the reduced gradient of its part, in
// accelerator or host memory.
//
//   gather: master values -> working dtype -> all_gather -> the parameters have values
//   collect, reduce, replicate, finish: .grad -> flat gradients -> reduce_scatter over the group
//                                       -> all_reduce over the replicas -> gradient of this rank's part
//
// A group of one rank with equal dtypes that keeps them on the accelerator keeps the buffer itself: nothing
// is copied or freed. Every rank must start and finish the same shards in the same order.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "weft/torch/pools.hpp"

namespace weft::kit {

// The ranks over which a flat buffer is sharded and replicated.
struct FlatShardLayout {
  Communicator group;                     // each member keeps one part
  Communicator replicas;                  // of the same part; a group of one: there are none
  uint32_t partition_axes = 0;            // those of `group`, as published
  uint32_t home = WEFT_POOL_ACCELERATOR;  // the pool of what a rank keeps
};

// One flat buffer that a group of ranks shards and gathers.
class FlatShard {
 public:
  // Appends a parameter. All have one working and one master dtype, and all are frozen or none.
  void add(Parameter parameter);

  // Binds the parameters and reads this rank's values; no other memory lasts. `reduce_dtype` is the dtype of
  // the flat gradients and their sums.
  void close(FlatShardLayout layout, at::ScalarType reduce_dtype);

  // Sets this rank's values to those that rank `root` of `ranks` reads; `ranks` holds group and replicas.
  void take_values_of(Communicator ranks, uint32_t root);

  // Starts to gather; the parameters may be used after gather(). Neither does anything once it is done.
  void start();
  void gather();
  // Takes the values of the parameters away; waits for a gather that is under way.
  void release();

  // Moves the parameter's .grad into the flat gradients, which it adds to until they are reduced.
  void collect(Parameter parameter);
  // Starts to sum what was collected over the group; what was not collected counts as zero. After it at once
  // replicate() and finish(), each of which waits for what was started before.
  void reduce();
  void replicate();
  void finish();
  // Forgets gradients, collected ones too.
  void zero();

  void publish(const ShardSink& sink) const;

  bool frozen() const { return frozen_; }
  at::ScalarType dtype() const { return working_; }  // that the parameters compute in
  bool gathered() const { return whole_ || gathered_; }
  int64_t elements() const { return used_; }

 private:
  struct Slot {
    Parameter parameter;
    int64_t offset, count;
    bool collected;
  };

  at::Tensor whole_buffer(at::ScalarType type) const;
  int64_t begin_of_part() const { return layout_.group.rank() * part_; }
  int64_t used_of_part() const;  // the rest is padding
  template <class Visit>
  void for_each_own(const Visit& visit) const;

  FlatShardLayout layout_;
  std::vector<Slot> slots_;
  std::unordered_map<weft_param*, size_t> slot_of_;
  int64_t used_ = 0, part_ = 0;  // elements of the parameters, and of one rank's part
  at::ScalarType working_ = at::kFloat, master_ = at::kFloat, reduce_dtype_ = at::kFloat;
  bool frozen_ = false, whole_ = false, gathered_ = false;
  at::Tensor flat_, values_;        // working values of all, master values of this rank's part
  at::Tensor gradients_, reduced_;  // of all: collected, and on their way
  at::Tensor sum_, gradient_;       // of this rank's part: under way, and complete
  Work gathering_, reducing_;
};

}  // namespace weft::kit
