// An exponential moving average of the weights, with the shards that the strategy publishes.
#pragma once

#include <vector>

#include "training/bindings.hpp"

namespace weft {

class WeightAverage {
 public:
  // Begins with the values that the parameters have, in fp32 (fp64 where they are). The average of frozen
  // parameters is their value. Throws FAILED_PRECONDITION if replicas train on their own, because their
  // averages would differ; INVALID_ARGUMENT unless the decay is more than 0 and less than 1. Every rank.
  WeightAverage(Bindings& bindings, double decay);
  double decay() const { return decay_; }

  // Begins anew with the values that the parameters have.
  void reset();
  // Moves the average towards the parameters by 1 - decay. Call it after each update.
  void update();
  // Exchanges it with the parameters, bit by bit. Collective.
  void swap();

  // A range of a trained parameter and its average, flat.
  struct Range {
    Shard shard;
    at::Tensor average;
  };
  // Returns the ranges of this rank.
  std::vector<Range> ranges();

 private:
  Bindings& bindings_;
  double decay_;
  std::vector<at::Tensor> averages_;  // in the order of the published shards; undefined if frozen
};

}  // namespace weft
