// The mesh of ranks: its axes, the coordinates of this rank, and the groups in which ranks communicate, each
// named by its purpose. Only this folder decides which axes make a group.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "axes/axis_sets.hpp"
#include "weft/mesh.h"
#include "weft/strategy.h"
#include "weft/world.hpp"

// The sizes of the axes while a strategy describes the mesh.
struct weft_mesh {
  weft_mesh() { size.fill(1); }
  std::array<uint32_t, weft::axis::kCount> size{};
  weft::Axes set_by_host = 0;
  uint32_t ranks_left = 1;  // for the axes that the host has not set
};

namespace weft {

// A number that several ranks compute alike. One of them reports it, so that a sum over all ranks counts it
// once.
enum class Fact {
  kLoss,     // the loss of this rank's positions, on ranks that run the last unit
  kOutputs,  // the outputs of this rank's samples, on ranks that run the last unit
  kSamples,  // the number of samples that this rank trains on
  kLayers,   // the results of whole layers that this rank runs, such as auxiliary losses
};

// How the ranks of a mesh are numbered: which axes vary slowest. Neighbours differ in the tensor axis.
enum class RankOrder : uint8_t {
  kSamplesOutside,  // first the axes of samples(), then the pipeline axis: the ranks of a stage are far apart
  kStagesOutside,   // first the pipeline axis, then the axes of samples(): those of a stage are neighbours
};

class Mesh {
 public:
  // Makes a mesh of one rank.
  Mesh() {
    size_.fill(1);
    leaf_size_.fill(1);
  }
  // Makes the mesh that a strategy describes. Each `sequence_size` neighbouring ranks along samples() split
  // the positions of the same samples among them. Throws INVALID_ARGUMENT naming `strategy` unless the
  // product of the sizes is the number of ranks, the product of the sub-axes of TENSOR is its size or 1, and
  // `sequence_size` divides the number of ranks along samples().
  Mesh(const weft_mesh& sizes, const World& world, const std::string& strategy, uint32_t sequence_size,
       RankOrder order = RankOrder::kSamplesOutside);

  uint32_t size(uint32_t axis) const { return size_[axis]; }
  uint32_t coordinate(uint32_t axis) const { return coordinate_[axis]; }

  // Each returns a group of ranks as the set of axes along which its members differ. Pass it to
  // Bindings::comm and place().
  static constexpr Axes samples() { return sample_axes(); }
  static constexpr Axes tensor() { return tensor_axes(); }
  static constexpr Axes stages() { return stage_axes(); }
  static constexpr Axes experts() { return expert_axes(); }
  // Returns the group with this name, by which a strategy asks for it: "samples", "tensor", "stages",
  // "experts". Throws NOT_FOUND listing the names that exist.
  static Axes named(std::string_view group);

  // The rank of this process in the group along `axes` and the size of the group, as Bindings::comm has them.
  struct Place {
    uint32_t rank, size;
  };
  Place place(Axes axes) const;
  // Returns true if the group along `axes` has more than one rank.
  bool splits(Axes axes) const { return place(axes).size > 1; }

  // Returns true on one of the ranks that compute `fact` alike: the first along the tensor axis and, for
  // outputs and samples, the first of the ranks that share sequences. Of the pipeline stages it chooses one
  // for samples only: the strategy chooses which stage runs a unit.
  bool speaks_for(Fact fact) const;

  // Returns which of the `count` elements that this rank holds of a parameter that is split over
  // `partition_axes` it counts in sums over all ranks: the index of the first one and their number. The
  // parameter is replicated along the other axes. Tensor-parallel replicas may hold other ranges of it, so
  // the first of them counts for all. The other replicas hold the same range, and each counts a part of it.
  std::pair<int64_t, int64_t> counted_range(Axes partition_axes, int64_t count) const;

  // Return how many ranks split the positions of the same samples, and the place of this rank among them.
  uint32_t sequence_size() const { return sequence_size_; }
  uint32_t sequence_rank() const { return place(samples()).rank % sequence_size_; }
  // Return how many ranks (or groups that share sequences) train on different samples, and the place of this
  // rank among them.
  uint32_t data_size() const { return place(samples()).size / sequence_size_; }
  uint32_t data_rank() const { return place(samples()).rank / sequence_size_; }

  // Returns what determines which samples a rank gets and what it draws at random: the sizes of the groups by
  // name, and "stages_outside" 1 if stages vary slowest and the order of ranks depends on it. On two meshes
  // with equal layouts, each rank has the same place in every group.
  std::vector<std::pair<std::string, uint32_t>> layout() const;

  // Returns the axes of a set that have more than one rank, with the sub-axes of TENSOR instead of it where
  // it has some.
  Axes open_axes(Axes axes = all_axes()) const;
  // Returns every set of open axes, in an order that is the same on all ranks.
  std::vector<Axes> groups() const;
  // Makes the communicator of the group along `axes`. Collective on the first call for these axes.
  Communicator along(const World& world, Axes axes) const;
  // Makes the communicator of the ranks that split the sequences of this rank, given the one along samples().
  // Null without sequence parallelism. Collective.
  Communicator sequence_ranks(const Communicator& samples) const;

 private:
  std::vector<int> leaf_sizes() const;

  RankOrder order_ = RankOrder::kSamplesOutside;
  uint32_t sequence_size_ = 1;
  std::array<uint32_t, axis::kCount> size_{}, coordinate_{};
  // The same, but with a size of 1 for TENSOR where it has sub-axes.
  std::array<uint32_t, axis::kCount> leaf_size_{}, leaf_coordinate_{};
};

// Where the ranks of one pipeline stage lie: `runs` runs of `length` neighbouring ranks, which begin `stride`
// ranks apart. The first run of stage s begins with rank s x length.
struct StageRanks {
  uint32_t length, stride, runs;
};
// Returns that of a mesh with these sizes, without making it.
StageRanks ranks_of_stages(const weft_mesh& sizes, RankOrder order);

// Returns the arguments of a strategy's `create`. They refer to `name`, `options` and `precision`, which must
// outlive them.
weft_strategy_arguments strategy_arguments(std::string_view name, const weft_kv* options, size_t num_options,
                                           int64_t world_size, int64_t rank, const std::string& precision);

// Returns the functions of "weft.mesh/1".
const weft_mesh_services* mesh_services();

// Returns the mesh that `strategy` describes. The host gives it a tensor axis of `tensor_size` ranks and a
// pipeline axis of `stages` ranks. Without a `describe_mesh` slot, all other ranks lie on the data axis.
// Throws UNIMPLEMENTED for several stages and a strategy that schedules units itself.
weft_mesh described_mesh(const weft_strategy_api& api, weft_strategy* strategy, const std::string& name,
                         uint32_t ranks, uint32_t tensor_size, uint32_t stages);

}  // namespace weft
