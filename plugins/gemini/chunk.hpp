// A chunk is a buffer of parameters that is sharded over a group of ranks. The parameters are views of the
// buffer, which is on the accelerator and has memory only while it is gathered. Each rank keeps the master
// weights of its part in the chunk's home, a memory pool.
//
//   gather:          master weights -> working dtype -> all-gather -> the parameters have values
//   collect, reduce: each gradient overwrites the values of its parameter -> reduce-scatter over the group
//                    -> all-reduce over the replicas -> gradient of this rank's part, in the home
//
// So gradients need no second buffer. Every rank must start and finish the same chunks in the same order.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "chunk_search.hpp"
#include "tensor_state.hpp"
#include "weft/kit/flat_part.hpp"
#include "weft/torch/pools.hpp"
#include "weft/torch/strategy.hpp"

namespace weft::plugin::gemini {

struct ChunkOptions {
  Communicator group;     // each rank keeps one part
  Communicator replicas;  // ranks that keep the same part
  uint32_t partition_axes = 0;
  uint32_t home = WEFT_POOL_ACCELERATOR;     // the pool of master weights and gradients
  uint32_t made_in = WEFT_POOL_ACCELERATOR;  // the pool into which master weights are read at first
  bool accumulates = false;  // keeps gradients in the master dtype until the update, not in the working dtype
};

class Chunk {
 public:
  // Allocates the buffer, binds the parameters and reads the values of this rank's part.
  Chunk(int64_t size, std::vector<Place> places, const std::vector<Parameter>& parameters,
        const ChunkOptions& options);

  // Starts the all-gather. Does nothing if it is done or in progress.
  void start();
  // Waits for the all-gather, starting it if needed. Then the parameters have values.
  void gather();
  // Frees the buffer. No parameter may be in use or hold a gradient.
  void release();
  bool gathered() const { return gathered_; }
  bool on_the_way() const { return static_cast<bool>(gathering_); }
  bool may_be_released() const;

  void set_state(size_t place, TensorState state);
  TensorState state(size_t place) const { return states_[place]; }
  // Moves the parameter's .grad into the buffer, over its values. The chunk must be gathered.
  void collect(size_t place);
  // Starts the reduce-scatter of the gradients; missing ones count as zero. finish() frees the buffer.
  void reduce();
  bool reducing() const { return reducing_; }
  // Waits for the reduction and adds the result to the gradient of this rank's part. It frees the buffer, or
  // leaves that to finish() while the result is on its way to host memory.
  void save();
  // Does what is left of save().
  void finish();
  bool has_gradient() const { return has_gradient_; }
  // One in host memory keeps its memory.
  void forget_gradient();

  // Keeps a copy of this rank's part in the working dtype on the accelerator, so that gathering needs no
  // transfer from host memory.
  void keep_shard();
  bool keeps_shard() const { return shard_.defined(); }
  // Call this when the master weights have been written. Frees the buffer and the copy that were made from
  // old ones.
  void values_changed();
  void move_home(uint32_t pool);
  uint32_t home() const { return options_.home; }

  void publish(const ShardSink& sink) const;

  int64_t bytes() const { return buffer_.numel() * static_cast<int64_t>(buffer_.element_size()); }
  int64_t shard_bytes() const { return part_ * static_cast<int64_t>(buffer_.element_size()); }
  int64_t master_bytes() const { return part_ * static_cast<int64_t>(master_.values.element_size()); }
  int64_t gradient_bytes() const;
  bool frozen() const { return frozen_; }  // all parameters are frozen

 private:
  template <class Visit>
  void for_each_own(const Visit& visit) const;
  at::Tensor own_part() const { return kit::own_part(buffer_, options_.group); }
  void free_buffer();

  ChunkOptions options_;
  std::vector<Place> places_;
  std::vector<Parameter> parameters_;  // by place
  std::vector<bool> trained_;
  std::vector<TensorState> states_;
  int64_t part_ = 0;  // elements of one rank's part
  at::ScalarType gradient_dtype_ = at::kFloat;
  bool frozen_ = true, gathered_ = false, reducing_ = false, has_gradient_ = false, shard_is_fresh_ = false;
  at::Tensor buffer_;     // on the accelerator, in the working dtype
  kit::HomePart master_;  // of this rank's part
  at::Tensor gradient_;   // likewise, at home
  at::Tensor shard_;      // see keep_shard
  Work gathering_, summing_, saving_;
};

}  // namespace weft::plugin::gemini
