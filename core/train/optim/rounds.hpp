// Runs one update by a rule. A rule may have several rounds, between which its sums are all-reduced.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/reading.hpp"
#include "optim/optimizer_state.hpp"

namespace weft::optim {

class Rounds {
 public:
  Rounds(Optimizer::Shared& shared, const std::vector<Shard>& shards);

  // Computes this rank's sums for round 0, which are complete when `reading` has been read.
  void measure(device::Reading& reading);
  // Returns whether there are any.
  bool measures() const;
  // Appends these sums to `sums`, which the caller all-reduces with numbers of its own.
  void append_measured(std::vector<double>& sums) const;
  // Returns whether the rule follows a decision of the device: no value is in host memory.
  bool takes_decisions() const;
  // Updates every parameter p with touched[p] > 0. `measured` points to the all-reduced sums of
  // append_measured(). `decision`: see UpdateBatch. All-reduces between two rounds.
  void run(const double* touched, const double* measured, double factor,
           const std::optional<at::Tensor>& decision = std::nullopt);
  // Takes back the step counts, and the states of first updates: the device has skipped the update of run().
  void take_back();

 private:
  std::vector<UpdateBatch> make_batches(const double* touched, double factor,
                                        const std::optional<at::Tensor>& decision);
  void update(int round, UpdateBatch& batch, device::Reading& reading) const;
  void update_half(int round, UpdateBatch& batch, device::Reading& reading) const;
  void sum_over_ranks(std::vector<UpdateBatch>& batches) const;
  Slice slice_of(const Shard& shard);

  Optimizer::Shared& shared_;
  const std::vector<Shard>& shards_;
  std::vector<Whole> parameters_;  // by index
  std::vector<uint32_t> updated_;  // the parameters of run()
};

}  // namespace weft::optim
