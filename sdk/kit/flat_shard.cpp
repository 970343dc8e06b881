#include "weft/kit/flat_shard.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

namespace weft::plugin::kit {

// Calls visit(slot, range) for each parameter of which this rank keeps some elements.
template <class Visit>
void FlatShard::for_each_own(const Visit& visit) const {
  for (const Slot& slot : slots_)
    if (const OwnRange own = own_range(begin_of_part(), part_, slot.offset, slot.count); own.count > 0)
      visit(slot, own);
}

void FlatShard::add(Parameter parameter) {
  const weft_param_info info = parameter.info();
  slots_.push_back({parameter, used_, info.count, false});
  slot_of_[parameter.get()] = slots_.size() - 1;
  used_ += info.count;
  frozen_ = info.frozen != 0;
  working_ = scalar_type(info.working_dtype);
  master_ = scalar_type(info.master_dtype);
}

void FlatShard::close(FlatShardLayout layout, at::ScalarType reduce_dtype) {
  layout_ = layout;
  reduce_dtype_ = reduce_dtype;
  const int64_t ranks = layout_.group.size();
  part_ = (used_ + ranks - 1) / ranks;
  flat_ = whole_buffer(working_);
  for (const Slot& slot : slots_) slot.parameter.bind(flat_.narrow(0, slot.offset, slot.count));
  whole_ = ranks == 1 && working_ == master_ && layout_.home == WEFT_POOL_ACCELERATOR;
  if (!whole_) resize_storage(flat_, 0);
  if (whole_)
    home_.values = flat_.zero_();
  else
    home_ = HomePart(layout_.home, part_, master_, working_);
  for_each_own([&](const Slot& slot, const OwnRange& own) {
    slot.parameter.read(own.begin, home_.values.narrow(0, own.place, own.count));
  });
  home_.round();
}

void FlatShard::take_values_of(Communicator ranks, uint32_t root) {
  const at::NoGradGuard no_grad;
  const at::Tensor all = whole_buffer(master_);
  if (ranks.rank() == root)
    for (const Slot& slot : slots_) slot.parameter.read(0, all.narrow(0, slot.offset, slot.count));
  ranks.broadcast(all, root).wait();
  copy_values(home_.values.narrow(0, 0, used_of_part()), all.narrow(0, begin_of_part(), used_of_part()));
  home_.round();
}

void FlatShard::start() {
  if (whole_ || gathered_ || gathering_) return;
  gathering_ = gather_parts(flat_, layout_.home, layout_.group,
                            [this](const at::Tensor& place) { copy_values(place, home_.source()); });
}

void FlatShard::gather() {
  start();
  gathering_.wait();
  gathered_ = true;
}

void FlatShard::release() {
  if (whole_ || (!gathered_ && !gathering_)) return;
  gathering_.wait();
  resize_storage(flat_, 0);
  gathered_ = false;
}

void FlatShard::collect(Parameter parameter) {
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

void FlatShard::reduce() {
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

void FlatShard::replicate() {
  if (layout_.group.size() == 1) return;  // reduce() has started the all-reduce
  reducing_.wait();
  reduced_.reset();
  if (layout_.replicas.size() > 1) reducing_ = layout_.replicas.all_reduce(sum_);
}

void FlatShard::finish() {
  reducing_.wait();
  const at::Tensor sum = std::exchange(sum_, at::Tensor());
  if (!has_gradient_ && layout_.home == WEFT_POOL_ACCELERATOR && reduce_dtype_ == master_)
    gradient_ = sum;
  else
    keep_sum(gradient_, saving_, sum, layout_.home, master_, has_gradient_);
  has_gradient_ = true;
}

void FlatShard::zero() {
  has_gradient_ = false;
  if (layout_.home == WEFT_POOL_ACCELERATOR) gradient_.reset();
  gradients_.reset();
  for (Slot& slot : slots_) slot.collected = false;
}

void FlatShard::publish(const ShardSink& sink) const {
  for_each_own([&](const Slot& slot, const OwnRange& own) {
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, own.place, own.count) : at::Tensor();
    };
    sink.shard(slot.parameter, own.begin, part(home_.values), has_gradient_ ? part(gradient_) : at::Tensor(),
               layout_.partition_axes, 0, part(home_.rounded));
  });
}

at::Tensor FlatShard::whole_buffer(at::ScalarType type) const {
  return allocate(WEFT_POOL_ACCELERATOR, part_ * layout_.group.size(), type);
}

int64_t FlatShard::used_of_part() const {
  return std::clamp<int64_t>(used_ - begin_of_part(), 0, part_);
}

}  // namespace weft::plugin::kit
