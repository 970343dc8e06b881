// The axes over which a strategy lays the ranks, and where this rank stands.
#pragma once

#include <array>
#include <string>

#include "weft/strategy.h"
#include "weft/world.hpp"

namespace weft {

class Mesh {
 public:
  // The mesh of one rank.
  Mesh() { size_.fill(1); }
  // Of the data-parallel ranks each `sequence_size` in a row share the sequences of their samples. Throws
  // INVALID_ARGUMENT naming `strategy` unless the sizes multiply to the number of ranks and that is possible.
  Mesh(const weft_mesh& sizes, const World& world, const std::string& strategy, uint32_t sequence_size);

  uint32_t size(uint32_t axis) const { return size_[axis]; }
  uint32_t coordinate(uint32_t axis) const { return coordinate_[axis]; }
  // Over DATA and REPLICA: ranks whose gradients are summed.
  uint32_t summing_size() const { return size(WEFT_AXIS_REPLICA) * size(WEFT_AXIS_DATA); }
  uint32_t summing_rank() const {
    return coordinate(WEFT_AXIS_REPLICA) * size(WEFT_AXIS_DATA) + coordinate(WEFT_AXIS_DATA);
  }
  // Of these, ranks that have other positions of the same samples, each with a loss of all positions.
  uint32_t sequence_size() const { return sequence_size_; }
  uint32_t sequence_rank() const { return summing_rank() % sequence_size_; }
  // Ranks that train on different samples.
  uint32_t data_size() const { return summing_size() / sequence_size_; }
  uint32_t data_rank() const { return summing_rank() / sequence_size_; }
  // Each rank has the same summing rank on both, and the same neighbours on the tensor axis.
  bool places_as(const Mesh& other) const {
    return summing_size() == other.summing_size() && size(WEFT_AXIS_TENSOR) == other.size(WEFT_AXIS_TENSOR);
  }
  // One of the ranks with the same loss speaks for them, one of those with the same samples for these: the
  // first.
  bool speaks_for_loss() const;
  bool speaks_for_samples() const { return speaks_for_loss() && sequence_rank() == 0; }

  // The axes with more than one rank.
  uint32_t open_axes() const;
  // The group along a set of axes. Collective when it is made first.
  Communicator along(const World& world, uint32_t axes) const;
  // The ranks that share this rank's sequences, out of those whose gradients are summed; null if there are no
  // others. Collective.
  Communicator sequence_ranks(const Communicator& summing) const;

 private:
  uint32_t sequence_size_ = 1;
  std::array<uint32_t, WEFT_AXES> size_{}, coordinate_{};
};

// What a strategy is made with. Borrows `options` and `precision`.
weft_strategy_arguments strategy_arguments(const weft_kv* options, size_t num_options, int64_t world_size,
                                           int64_t rank, const std::string& precision);

// What a strategy that is made says of its mesh, whose tensor axis the host opens with `tensor_size` ranks;
// the host's default where it says nothing.
weft_mesh described_mesh(const weft_strategy_api& api, weft_strategy* strategy, const std::string& name,
                         const World& world, uint32_t tensor_size);

}  // namespace weft
