#include "chunk.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <string>
#include <utility>

#include "weft/kit/flat_part.hpp"

namespace weft::plugin::gemini {

// Calls visit(index of the place, range) for each parameter of which this rank keeps some elements.
template <class Visit>
void Chunk::for_each_own(const Visit& visit) const {
  for (size_t i = 0; i < places_.size(); ++i)
    if (const kit::OwnRange own =
            kit::own_range(options_.group.rank() * part_, part_, places_[i].offset, places_[i].count);
        own.count > 0)
      visit(i, own);
}

Chunk::Chunk(int64_t size, std::vector<Place> places, const std::vector<Parameter>& parameters,
             const ChunkOptions& options)
    : options_(options), places_(std::move(places)), states_(places_.size(), TensorState::kFree) {
  const at::NoGradGuard no_grad;
  part_ = size / options_.group.size();
  const at::ScalarType working = scalar_type(parameters[places_.front().parameter].info().working_dtype);
  buffer_ = allocate(WEFT_POOL_ACCELERATOR, size, working);
  at::ScalarType master = working;
  for (const Place& place : places_) {
    const Parameter& parameter = parameters[place.parameter];
    parameter.bind(buffer_.narrow(0, place.offset, place.count));
    parameters_.push_back(parameter);
    const weft_param_info info = parameter.info();
    trained_.push_back(info.frozen == 0);
    if (info.frozen != 0) continue;
    frozen_ = false;
    master = scalar_type(info.master_dtype);
  }
  gradient_dtype_ = options_.accumulates ? master : working;
  free_buffer();
  const uint32_t home = std::exchange(options_.home, options_.made_in);
  master_ = kit::HomePart(options_.made_in, part_, master, working);
  for_each_own([&](size_t i, const kit::OwnRange& own) {
    parameters_[i].read(own.begin, master_.values.narrow(0, own.place, own.count));
  });
  master_.round();
  move_home(home);
}

int64_t Chunk::gradient_bytes() const {
  return part_ * static_cast<int64_t>(c10::elementSize(gradient_dtype_));
}

void Chunk::free_buffer() {
  resize_storage(buffer_, 0);
  gathered_ = false;
}

void Chunk::start() {
  if (gathered_ || gathering_) return;
  const at::NoGradGuard no_grad;
  const bool stays = shard_.defined(), is_fresh = std::exchange(shard_is_fresh_, stays);
  const uint32_t from = is_fresh ? WEFT_POOL_ACCELERATOR : options_.home;
  gathering_ = kit::gather_parts(buffer_, from, options_.group, [&](const at::Tensor& place) {
    if (stays && !is_fresh) copy_values(shard_, master_.source());
    copy_values(place, stays ? shard_ : master_.source());
  });
}

void Chunk::gather() {
  if (gathered_) return;
  start();
  gathering_.wait();
  gathered_ = true;
  for (size_t i = 0; i < states_.size(); ++i) set_state(i, TensorState::kHold);
}

void Chunk::release() {
  if (gathering_) gather();
  if (!gathered_) return;
  for (size_t i = 0; i < states_.size(); ++i) set_state(i, TensorState::kFree);
  free_buffer();
}

bool Chunk::may_be_released() const {
  return gathered_ && !reducing_ && std::all_of(states_.begin(), states_.end(), [](TensorState state) {
           return state == TensorState::kHold || state == TensorState::kHoldAfterBackward;
         });
}

void Chunk::set_state(size_t place, TensorState state) {
  TensorState& now = states_[place];
  if (now == state) return;
  if (!may_become(now, state))
    throw Error(WEFT_INTERNAL, "gemini: parameter " + text(parameters_[place].info().name) + " is " +
                                   name(now) + " and cannot become " + name(state));
  now = state;
}

void Chunk::collect(size_t place) {
  at::Tensor& field = parameters_[place].gradient();
  // Leaves the gradient in .grad if the chunk was released, as after one backward through several forwards.
  if (!gathered_ || reducing_ || !field.defined()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor gradient = std::exchange(field, at::Tensor());
  buffer_.narrow(0, places_[place].offset, places_[place].count).view(gradient.sizes()).copy_(gradient);
  set_state(place, TensorState::kHoldAfterBackward);
  set_state(place, TensorState::kReadyForReduce);
}

void Chunk::reduce() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (states_[i] != TensorState::kReadyForReduce) collect(i);
    if (states_[i] != TensorState::kReadyForReduce)
      buffer_.narrow(0, places_[i].offset, places_[i].count).zero_();
  }
  if (options_.group.size() > 1) summing_ = options_.group.reduce_scatter(own_part(), buffer_);
  reducing_ = true;
}

void Chunk::save() {
  const at::NoGradGuard no_grad;
  summing_.wait();
  const at::Tensor sum = own_part();
  if (options_.replicas.size() > 1) options_.replicas.all_reduce(sum).wait();
  keep_sum(gradient_, saving_, sum, options_.home, gradient_dtype_, has_gradient_);
  has_gradient_ = true;
  if (!saving_) finish();
}

void Chunk::finish() {
  const at::NoGradGuard no_grad;
  saving_.wait();
  reducing_ = false;
  for (size_t i = 0; i < states_.size(); ++i) set_state(i, TensorState::kHold);
  for (size_t i = 0; i < states_.size(); ++i) set_state(i, TensorState::kFree);
  free_buffer();
}

void Chunk::forget_gradient() {
  has_gradient_ = false;
  if (options_.home == WEFT_POOL_ACCELERATOR) gradient_.reset();
}

void Chunk::keep_shard() {
  shard_ = allocate(WEFT_POOL_ACCELERATOR, part_, buffer_.scalar_type());
  shard_is_fresh_ = false;
}

void Chunk::values_changed() {
  shard_is_fresh_ = false;
  release();
}

void Chunk::move_home(uint32_t pool) {
  if (pool == std::exchange(options_.home, pool)) return;
  kit::HomePart moved(pool, part_, master_.values.scalar_type(), buffer_.scalar_type());
  copy_values(moved.values, master_.values);
  moved.round();
  master_ = std::move(moved);
  const at::Tensor before = std::exchange(gradient_, at::Tensor());
  if (!has_gradient_) return;
  gradient_ = allocate(pool, part_, gradient_dtype_);
  copy_values(gradient_, before);
}

void Chunk::publish(const ShardSink& sink) const {
  for_each_own([&](size_t i, const kit::OwnRange& own) {
    const bool has_gradient = trained_[i] && has_gradient_;
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, own.place, own.count) : at::Tensor();
    };
    sink.shard(parameters_[i], own.begin, part(master_.values), has_gradient ? part(gradient_) : at::Tensor(),
               options_.partition_axes, 0, part(master_.rounded));
  });
}

}  // namespace weft::plugin::gemini
