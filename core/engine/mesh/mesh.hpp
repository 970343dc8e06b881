// The axes over which a strategy lays out the ranks, where this rank stands, and the groups of ranks by what
// they are for.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/axes.hpp"
#include "weft/strategy.h"
#include "weft/world.hpp"

namespace weft {

// What several ranks know alike, so that only one of them may report it.
enum class Fact {
  kLoss,     // of this rank's positions, on the ranks that ran the last unit
  kOutputs,  // of this rank's samples, on the ranks that ran the last unit
  kSamples,  // how many this rank trains on
};

class Mesh {
 public:
  // A mesh of one rank.
  Mesh() {
    size_.fill(1);
    leaf_size_.fill(1);
  }
  // Every `sequence_size` neighbouring ranks along samples() share the sequences of their samples. Throws
  // INVALID_ARGUMENT naming `strategy` unless the sizes multiply to the number of ranks, those of the
  // sub-axes of TENSOR to its size, and `sequence_size` divides the ranks along samples().
  Mesh(const weft_mesh& sizes, const World& world, const std::string& strategy, uint32_t sequence_size);

  uint32_t size(uint32_t axis) const { return size_[axis]; }
  uint32_t coordinate(uint32_t axis) const { return coordinate_[axis]; }

  // Groups of ranks, as the axes along which they lie: for Training::comm and place().
  static constexpr Axes samples() { return sample_axes(); }
  static constexpr Axes tensor() { return tensor_axes(); }
  static constexpr Axes stages() { return stage_axes(); }
  static constexpr Axes same_stage() { return all_axes() & ~stage_axes(); }
  static constexpr Axes experts() { return expert_axes(); }
  // The ranks that hold the same elements of a parameter that is split over `partition_axes`.
  Axes replicas_of(Axes partition_axes) const { return open_axes() & ~with_sub_axes(partition_axes); }
  // The ranks over which the gradient of a parameter that is split over `partition_axes` is summed.
  static constexpr Axes gradient_sum_of(Axes partition_axes) {
    return samples() & ~with_sub_axes(partition_axes);
  }
  // The group that a strategy asks for by name: "samples", "tensor", "stages", "experts". Throws NOT_FOUND
  // with the known names.
  static Axes named(std::string_view group);

  // Where this rank stands in the group along `axes`, in the order of Training::comm.
  struct Place {
    uint32_t rank, size;
  };
  Place place(Axes axes) const;
  // Whether `axes` has more than one rank.
  bool splits(Axes axes) const { return place(axes).size > 1; }

  // True on the first of the ranks along the tensor axis (and, unless the fact is a loss, of the ranks that
  // share sequences) that know `fact` alike. Which stage knows the loss and the outputs is the strategy's
  // choice: the one that ran the last unit.
  bool speaks_for(Fact fact) const;

  // The range of [0, count) that this rank counts of elements that all ranks along
  // replicas_of(partition_axes) hold: begin and count. The ranges of these ranks are disjoint and cover all.
  std::pair<int64_t, int64_t> counted_range(Axes partition_axes, int64_t count) const;

  // Ranks that have other positions of the same samples, each with a loss of all positions.
  uint32_t sequence_size() const { return sequence_size_; }
  uint32_t sequence_rank() const { return place(samples()).rank % sequence_size_; }
  // Ranks that train on different samples.
  uint32_t data_size() const { return place(samples()).size / sequence_size_; }
  uint32_t data_rank() const { return place(samples()).rank / sequence_size_; }

  // The sizes of the groups that decide what a rank draws at random and which samples it gets, by name. Where
  // they are equal, each rank has the same place on both meshes.
  std::vector<std::pair<std::string, uint32_t>> layout() const;

  // The axes with more than one rank, without TENSOR where it has sub-axes.
  Axes open_axes() const;
  // The group along a set of axes. Collective when it is made first.
  Communicator along(const World& world, Axes axes) const;
  // The ranks that share this rank's sequences, out of those along samples(); null if there are no others.
  // Collective.
  Communicator sequence_ranks(const Communicator& samples) const;

 private:
  std::vector<int> leaf_sizes() const;

  uint32_t sequence_size_ = 1;
  std::array<uint32_t, WEFT_AXES> size_{}, coordinate_{};
  // The same with one rank along TENSOR where sub-axes lay its ranks out.
  std::array<uint32_t, WEFT_AXES> leaf_size_{}, leaf_coordinate_{};
};

// What a strategy is made with. Borrows `options` and `precision`.
weft_strategy_arguments strategy_arguments(const weft_kv* options, size_t num_options, int64_t world_size,
                                           int64_t rank, const std::string& precision);

// What a strategy that is made says of its mesh, whose tensor axis the host opens with `tensor_size` ranks;
// the host's default where it says nothing.
weft_mesh described_mesh(const weft_strategy_api& api, weft_strategy* strategy, const std::string& name,
                         const World& world, uint32_t tensor_size);

}  // namespace weft
