// One update by a rule in rounds: slices and whole parameters put together, and what they sum over the ranks.
#pragma once

#include <vector>

#include "optim/optimizer_state.hpp"

namespace weft::optim {

class Rounds {
 public:
  Rounds(Optimizer::Shared& shared, const std::vector<Shard>& shards);

  // Appends this rank's sums of round 0; the caller adds them up over all ranks with numbers of its own.
  void measure(std::vector<double>& sums);
  // Updates every parameter p with touched[p] > 0; `measured` is where the totals of measure begin. One
  // all-reduce between two rounds, none for a rule of one.
  void run(const double* touched, const double* measured, double factor);

 private:
  std::vector<UpdateBatch> make_batches(const double* touched, double factor);
  void update(int round, UpdateBatch& batch) const;
  void update_half(int round, UpdateBatch& batch) const;
  void sum_over_ranks(std::vector<UpdateBatch>& batches) const;
  Slice slice_of(const Shard& shard);

  Optimizer::Shared& shared_;
  const std::vector<Shard>& shards_;
  std::vector<Whole> parameters_;  // by index
};

}  // namespace weft::optim
