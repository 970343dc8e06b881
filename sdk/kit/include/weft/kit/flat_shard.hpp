// Shards parameters over a group of ranks. The parameters are views of one flat buffer, which has memory only
// while it is gathered. Each rank keeps the master weights and the reduced gradient of its part of the
// buffer, in accelerator or host memory.
//
//   gather: master weights -> working dtype -> all-gather -> the parameters have values
//   collect, reduce, replicate, finish: .grad -> flat gradients -> reduce-scatter over the group
//                                       -> all-reduce over the replicas -> gradient of this rank's part
//
// If the group has one rank, the dtypes are equal and everything is on the accelerator, the rank keeps the
// buffer itself and nothing is copied or freed. Every rank must start and finish the same shards in the same
// order.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "weft/kit/flat_part.hpp"

namespace weft::plugin::kit {

// The ranks over which a flat buffer is sharded and replicated.
struct FlatShardLayout {
  Communicator group;                     // each rank keeps one part
  Communicator replicas;                  // ranks that keep the same part; this rank alone if there are none
  uint32_t partition_axes = 0;            // the axes of `group`, for publish()
  uint32_t home = WEFT_POOL_ACCELERATOR;  // the pool of master weights and reduced gradients
};

// A flat buffer of parameters that a group of ranks shards and gathers.
class FlatShard {
 public:
  // Appends a parameter. All parameters must have the same working and master dtypes and be all frozen or all
  // trained.
  void add(Parameter parameter);

  // Binds the parameters and reads the values of this rank's part, the only memory that is kept.
  // `reduce_dtype` is the dtype in which gradients are collected and reduced.
  void close(FlatShardLayout layout, at::ScalarType reduce_dtype);

  // Replaces the values by those that rank `root` of `ranks` reads. `ranks` contains the group and the
  // replicas.
  void take_values_of(Communicator ranks, uint32_t root);

  // start() starts the all-gather and gather() waits for it, starting it if needed; then the parameters have
  // values. Neither does anything if the parameters are gathered already.
  void start();
  void gather();
  // Frees the values of the parameters. Waits for an all-gather that is in progress.
  void release();

  // Adds the parameter's .grad to the flat gradients, which collect until they are reduced, and resets .grad.
  void collect(Parameter parameter);
  // Reduce the gradients. reduce() starts the reduce-scatter of the collected gradients over the group;
  // parameters without a gradient count as zero. replicate() waits for it and starts the all-reduce over the
  // replicas, and finish() waits for that. Call them in this order.
  void reduce();
  void replicate();
  void finish();
  // Forgets the gradients, collected and reduced ones. Those in host memory keep their memory.
  void zero();

  void publish(const ShardSink& sink) const;

  bool frozen() const { return frozen_; }
  at::ScalarType dtype() const { return working_; }  // the working dtype
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
  int64_t used_of_part() const;  // without padding
  template <class Visit>
  void for_each_own(const Visit& visit) const;

  FlatShardLayout layout_;
  std::vector<Slot> slots_;
  std::unordered_map<weft_param*, size_t> slot_of_;
  int64_t used_ = 0, part_ = 0;  // elements of all parameters, and of one rank's part with padding
  at::ScalarType working_ = at::kFloat, master_ = at::kFloat, reduce_dtype_ = at::kFloat;
  bool frozen_ = false, whole_ = false, gathered_ = false, has_gradient_ = false;
  at::Tensor flat_;                 // the buffer
  HomePart home_;                   // the master weights of this rank's part
  at::Tensor gradients_, reduced_;  // flat gradients: being collected, and being reduced
  at::Tensor sum_, gradient_;       // this rank's part of the gradient: being reduced, and complete
  Work gathering_, reducing_, saving_;
};

}  // namespace weft::plugin::kit
