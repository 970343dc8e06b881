// Parameters as views of one flat buffer of which each rank of a group keeps one part. The buffer has memory
// only while it is gathered; what a rank keeps, on the accelerator or in the host's memory, are the master
// values and the summed gradient of its part.
//
//   gather: master values -> working dtype -> all_gather -> the parameters have values
//   collect, reduce, replicate, finish: .grad -> flat gradients -> reduce_scatter over the group
//                                       -> all_reduce over the replicas -> gradient of this rank's part
//
// A group of one with equal dtypes that keeps them on the accelerator keeps the buffer itself: nothing is
// copied or freed. Every rank must start and finish the same shards in the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pools.hpp"

namespace weft {
inline namespace sdk_v0 {

// Over which ranks a flat buffer is divided and copied.
struct FlatShardLayout {
  Communicator group;                     // each member keeps one part
  Communicator replicas;                  // of the same part; a group of one: there are none
  uint32_t partition_axes = 0;            // those of `group`, as published
  uint32_t home = WEFT_POOL_ACCELERATOR;  // the pool of what a rank keeps
};

class FlatShard {
 public:
  // All of one working and master dtype, and all frozen or none.
  void add(Parameter parameter) {
    const weft_param_info info = parameter.info();
    slots_.push_back({parameter, used_, info.count, false});
    slot_of_[parameter.get()] = slots_.size() - 1;
    used_ += info.count;
    frozen_ = info.frozen != 0;
    working_ = scalar_type(info.working_dtype);
    master_ = scalar_type(info.master_dtype);
  }

  // Binds the parameters and reads this rank's values; no other memory lasts. `reduce_dtype`: of the flat
  // gradients and their sums; the working dtype unless given.
  void close(FlatShardLayout layout, at::ScalarType reduce_dtype) {
    layout_ = layout;
    reduce_dtype_ = reduce_dtype;
    const int64_t ranks = layout_.group.size();
    part_ = (used_ + ranks - 1) / ranks;
    flat_ = whole_buffer(working_);
    for (const Slot& slot : slots_) slot.parameter.bind(flat_.narrow(0, slot.offset, slot.count));
    whole_ = ranks == 1 && working_ == master_ && layout_.home == WEFT_POOL_ACCELERATOR;
    if (!whole_) resize_storage(flat_, 0);
    values_ = whole_ ? flat_ : allocate(layout_.home, part_, master_);
    const int64_t own = std::clamp<int64_t>(used_ - layout_.group.rank() * part_, 0, part_);
    values_.narrow(0, own, part_ - own).zero_();
    for_each_own([&](const Slot& slot, int64_t begin, int64_t place, int64_t count) {
      slot.parameter.read(begin, values_.narrow(0, place, count));
    });
  }

  // This rank's values become those that rank `root` of `ranks` reads; `ranks` holds group and replicas.
  void take_values_of(Communicator ranks, uint32_t root) {
    const at::NoGradGuard no_grad;
    const at::Tensor all = whole_buffer(master_);
    if (ranks.rank() == root)
      for (const Slot& slot : slots_) slot.parameter.read(0, all.narrow(0, slot.offset, slot.count));
    ranks.broadcast(all, root).wait();
    const int64_t begin = layout_.group.rank() * part_;
    const int64_t own = std::clamp<int64_t>(used_ - begin, 0, part_);
    copy_values(values_.narrow(0, 0, own), all.narrow(0, begin, own));
  }

  // Starts to gather; the parameters may be used after gather(). Neither does anything once it is done.
  void start() {
    if (whole_ || gathered_ || gathering_) return;
    const at::NoGradGuard no_grad;
    resize_storage(flat_, flat_.numel());
    const at::Tensor own = flat_.narrow(0, layout_.group.rank() * part_, part_);
    copy_values(own, values_);
    gathering_ = layout_.group.all_gather(flat_, own);
  }
  void gather() {
    start();
    gathering_.wait();
    gathered_ = true;
  }
  // The parameters lose their values; a gather under way is waited for.
  void release() {
    if (whole_ || (!gathered_ && !gathering_)) return;
    gathering_.wait();
    resize_storage(flat_, 0);
    gathered_ = false;
  }

  // Moves the parameter's .grad into the flat gradients, which it adds to until they are reduced.
  void collect(Parameter parameter) {
    const at::Tensor gradient = std::exchange(parameter.gradient(), at::Tensor());
    if (!gradient.defined()) return;
    const at::NoGradGuard no_grad;
    Slot& slot = slots_[slot_of_.at(parameter.get())];
    if (!gradients_.defined()) gradients_ = whole_buffer(reduce_dtype_);
    const at::Tensor place = gradients_.narrow(0, slot.offset, slot.count).view(gradient.sizes());
    if (std::exchange(slot.collected, true))
      place.add_(gradient);
    else
      place.copy_(gradient);
  }

  // Starts to sum what was collected over the group; what was not collected counts zero. After it at once
  // replicate() and finish(), each of which waits for what was started before.
  void reduce() {
    const at::NoGradGuard no_grad;
    if (!gradients_.defined()) gradients_ = whole_buffer(reduce_dtype_);
    for (Slot& slot : slots_)
      if (!std::exchange(slot.collected, false)) gradients_.narrow(0, slot.offset, slot.count).zero_();
    gradients_.narrow(0, used_, gradients_.numel() - used_).zero_();
    if (layout_.group.size() == 1) {
      sum_ = std::exchange(gradients_, at::Tensor());
      if (layout_.replicas.size() > 1) reducing_ = layout_.replicas.all_reduce(sum_);
      return;
    }
    sum_ = allocate(WEFT_POOL_ACCELERATOR, part_, reduce_dtype_);
    reduced_ = std::exchange(gradients_, at::Tensor());
    reducing_ = layout_.group.reduce_scatter(sum_, reduced_);
  }
  void replicate() {
    if (layout_.group.size() == 1) return;  // it is under way
    reducing_.wait();
    reduced_.reset();
    if (layout_.replicas.size() > 1) reducing_ = layout_.replicas.all_reduce(sum_);
  }
  void finish() {
    reducing_.wait();
    const at::Tensor sum = std::exchange(sum_, at::Tensor());
    if (!gradient_.defined() && layout_.home == WEFT_POOL_ACCELERATOR && reduce_dtype_ == master_)
      gradient_ = sum;
    else
      keep_sum(gradient_, sum, layout_.home, master_);
  }

  // Forgets gradients, collected ones too.
  void zero() {
    gradient_.reset();
    gradients_.reset();
    for (Slot& slot : slots_) slot.collected = false;
  }

  void publish(const ShardSink& sink) const {
    for_each_own([&](const Slot& slot, int64_t begin, int64_t place, int64_t count) {
      sink.shard(slot.parameter, begin, values_.narrow(0, place, count),
                 gradient_.defined() ? gradient_.narrow(0, place, count) : at::Tensor(),
                 layout_.partition_axes);
    });
  }

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

  at::Tensor whole_buffer(at::ScalarType type) const {
    return allocate(WEFT_POOL_ACCELERATOR, part_ * layout_.group.size(), type);
  }

  // Calls visit(slot, where the range begins in the parameter, and in this rank's part, elements).
  template <class Visit>
  void for_each_own(const Visit& visit) const {
    const int64_t low = layout_.group.rank() * part_, high = low + part_;
    for (const Slot& slot : slots_) {
      const int64_t begin = std::max(low, slot.offset), end = std::min(high, slot.offset + slot.count);
      if (begin < end) visit(slot, begin - slot.offset, begin - low, end - begin);
    }
  }

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

}  // namespace sdk_v0
}  // namespace weft
