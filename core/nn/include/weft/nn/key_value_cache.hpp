// The keys and values of the tokens that a model has read, so that a forward of the next tokens computes
// nothing for earlier ones again. A cache belongs to one batch of sequences and travels with the
// ForwardContext of each forward. Attention layers find it there: nn::Attention adds its keys and values and
// attends to all of them. Shapes: N rows, T positions of a forward, S positions up to its last one, G heads
// of keys and values, D channels of a head.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "weft/state.hpp"

namespace weft::nn {

// The cache of a batch of sequences. Rows have as many positions; those of a shorter sequence begin with
// padding. Grows by doubling. One thread uses a cache at a time, without gradients.
class KeyValueCache {
 public:
  // The keys and values of one attention layer, (N, G, S, D) each.
  struct KeysValues {
    at::Tensor keys, values;
  };

  // `capacity` is the number of positions that the cache takes memory for at once. `padding` has the number
  // of positions before the first token of each row; empty: no row has padding.
  explicit KeyValueCache(int64_t capacity = 0, std::vector<int64_t> padding = {});
  KeyValueCache(const KeyValueCache&) = delete;

  // Returns the cache of the unit that this thread runs; null if its forward has none, outside of a unit, and
  // while a Suspension lives.
  static KeyValueCache* current();

  // Returns the number of positions of all forwards that have ended.
  int64_t past() const { return past_; }
  // Returns S: these positions, and those of the forward that runs.
  int64_t length() const { return past_ + running_; }
  int64_t capacity() const { return capacity_; }
  // Returns the number of attention layers that have keys here.
  size_t layers() const { return layers_.size(); }
  // Returns the positions of padding of a row.
  int64_t padding_of(size_t row) const { return padding_.empty() ? 0 : padding_[row]; }
  bool has_padding() const;

  // Begins a forward of T more positions, which `end` adds to the past. A forward that failed is begun anew.
  void begin(int64_t positions);
  void end();

  // Adds the keys and values (N, T, G, D) of a layer's T positions and returns those of all S, which are
  // views of the cache. Throws FAILED_PRECONDITION if they do not have the positions of this forward.
  KeysValues append(const void* layer, const at::Tensor& keys, const at::Tensor& values);
  // Returns keys and values that stay the same, those of another sequence: the first call keeps what `make`
  // returns, (N, positions, G, D) each.
  const KeysValues& source(const void* layer, const std::function<KeysValues()>& make);

  // Returns the additive mask of the padding, (N, 1, 1, S) in the dtype of `like`, or an undefined tensor if
  // no row has padding.
  at::Tensor padding(const at::Tensor& like);
  // Returns the position of each key in its row, counted from its first token, for `count` keys: (1 or N,
  // count) in int64 on the device of `like`, 0 for padding.
  at::Tensor positions(int64_t count, const at::Tensor& like) const;
  // Returns the first S columns of a tensor (..., capacity) of `owner`. `make` returns it for a capacity; it
  // is called again when the cache has grown.
  at::Tensor by_key(const void* owner, const std::function<at::Tensor(int64_t capacity)>& make);

  // Keep fields of a State for later forwards, and return those that were kept.
  void keep(const char* name, const at::Tensor& field) { kept_.set(name, field); }
  const State& kept() const { return kept_; }

  // Returns the object that `owner` keeps until the forward ends. The first call makes it. An owner must
  // always ask for the same type.
  template <class T>
  T& in_forward(const void* owner) {
    std::shared_ptr<void>& place = in_forward_[owner];
    if (place == nullptr) place = std::make_shared<T>();
    return *static_cast<T*>(place.get());
  }

  // Replaces the rows by those with these numbers, which may repeat.
  void select_rows(const std::vector<int64_t>& rows);

  // Hides the cache from layers while it lives: those of an encoder, which reads its whole sequence once.
  class Suspension {
   public:
    explicit Suspension(KeyValueCache* cache) : cache_(cache) {
      if (cache_ != nullptr) cache_->suspended_ = true;
    }
    ~Suspension() {
      if (cache_ != nullptr) cache_->suspended_ = false;
    }
    Suspension(const Suspension&) = delete;

   private:
    KeyValueCache* const cache_;  // may be null
  };

 private:
  int64_t capacity_, past_ = 0, running_ = 0;
  std::vector<int64_t> padding_;
  bool suspended_ = false;
  std::unordered_map<const void*, KeysValues> layers_, sources_;  // (N, G, capacity, D), (N, G, positions, D)
  std::unordered_map<const void*, at::Tensor> by_key_;
  std::unordered_map<const void*, std::shared_ptr<void>> in_forward_;
  State kept_;
};

}  // namespace weft::nn
