// A chunk: parameters as views of one buffer on the accelerator, which has memory only while it is gathered.
// Each rank of the group keeps the master values of its part in the chunk's home, a pool of memory.
//
//   gather:          master values -> working dtype -> all_gather -> the parameters have values
//   collect, reduce: each gradient takes the place of its parameter's values -> reduce_scatter over the group
//                    -> all_reduce over the replicas -> gradient of this rank's part, in the home
//
// So gradients need no memory of the chunk's size. Every rank starts and finishes the same in the same order.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "chunk_search.hpp"
#include "tensor_state.hpp"
#include "weft/kit/flat_part.hpp"
#include "weft/torch/pools.hpp"
#include "weft/torch/strategy.hpp"

namespace weft::gemini {

struct ChunkOptions {
  Communicator group;     // each member keeps one part
  Communicator replicas;  // that keep the same part
  uint32_t partition_axes = 0;
  uint32_t home = WEFT_POOL_ACCELERATOR;     // of master values and gradients
  uint32_t made_in = WEFT_POOL_ACCELERATOR;  // where the master values are read first
  bool accumulates = false;  // gradients are kept until the update in the master dtype, not the working one
};

class Chunk {
 public:
  // Makes the buffer, binds the parameters and reads this rank's values.
  Chunk(int64_t size, std::vector<Place> places, const std::vector<Parameter>& parameters,
        const ChunkOptions& options);

  // Starts to gather; nothing if it is gathered or on the way.
  void start();
  // The parameters have their values from here on.
  void gather();
  // They lose them. No parameter may be computed with or hold a gradient.
  void release();
  bool gathered() const { return gathered_; }
  bool on_the_way() const { return static_cast<bool>(gathering_); }
  bool may_be_released() const;

  void set_state(size_t place, TensorState state);
  TensorState state(size_t place) const { return states_[place]; }
  // The parameter's .grad takes the place of its values. The chunk is gathered.
  void collect(size_t place);
  // Starts to sum the gradients; those that were not collected count zero. The buffer is freed by finish().
  void reduce();
  bool reducing() const { return reducing_; }
  // Waits, and adds the sum to the gradients of this rank's part.
  void finish();
  bool has_gradient() const { return gradient_.defined(); }
  void forget_gradient() { gradient_.reset(); }

  // Keeps a copy of this rank's part in the working dtype on the accelerator, so that gathering needs no
  // transfer.
  void keep_shard();
  bool keeps_shard() const { return shard_.defined(); }
  // Master values were written. A chunk that is gathered loses what it derived from them.
  void values_changed();
  void move_home(uint32_t pool);
  uint32_t home() const { return options_.home; }

  void publish(const ShardSink& sink) const;

  int64_t bytes() const { return buffer_.numel() * static_cast<int64_t>(buffer_.element_size()); }
  int64_t shard_bytes() const { return part_ * static_cast<int64_t>(buffer_.element_size()); }
  int64_t master_bytes() const { return part_ * static_cast<int64_t>(master_.element_size()); }
  int64_t gradient_bytes() const;
  bool frozen() const { return frozen_; }  // every parameter is

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
  bool frozen_ = true, gathered_ = false, reducing_ = false, shard_is_fresh_ = false;
  at::Tensor buffer_;             // on the accelerator, in the working dtype
  at::Tensor master_, gradient_;  // of this rank's part, at home
  at::Tensor shard_;              // see keep_shard
  Work gathering_, summing_;
};

}  // namespace weft::gemini
