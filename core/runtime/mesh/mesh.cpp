#include "mesh/mesh.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error_sink.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"

namespace weft {

namespace {

// The axis that varies slowest comes first, so that neighbouring ranks differ in the tensor axis.
using AxisOrder = std::array<uint32_t, axis::kCount>;
constexpr AxisOrder kSamplesOutside = {axis::kReplica,      axis::kData,        axis::kExperts,
                                       axis::kStages,       axis::kTensorDepth, axis::kTensorRow,
                                       axis::kTensorColumn, axis::kTensor};
constexpr AxisOrder kStagesOutside = {axis::kStages,       axis::kReplica,     axis::kData,
                                      axis::kExperts,      axis::kTensorDepth, axis::kTensorRow,
                                      axis::kTensorColumn, axis::kTensor};
static_assert(kSamplesOutside.back() == axis::kTensor && kStagesOutside.back() == axis::kTensor);

const AxisOrder& axes_of(RankOrder order) {
  return order == RankOrder::kStagesOutside ? kStagesOutside : kSamplesOutside;
}

// Products of sizes stop here, so that they cannot overflow. No job has so many ranks.
constexpr uint64_t kTooMany = uint64_t{1} << 31;

// Returns the entry of the list. `others` names what the caller knows beside it, for the message.
uint32_t axis_named(std::string_view name, const char* others) {
  const auto* const found = std::find(axis::kNames.begin(), axis::kNames.end(), name);
  if (found == axis::kNames.end())
    fail(WEFT_NOT_FOUND, "the mesh has no axis \"{}\"; there are {}{}", printable(name, 40), others,
         fmt::join(axis::kNames, ", "));
  return static_cast<uint32_t>(found - axis::kNames.begin());
}

}  // namespace

Mesh::Mesh(const weft_mesh& sizes, const World& world, const std::string& strategy, uint32_t sequence_size,
           RankOrder order)
    : order_(order), sequence_size_(sequence_size) {
  size_ = sizes.size;
  const auto product_of = [&](std::initializer_list<uint32_t> axes) {
    uint64_t product = 1;
    for (const uint32_t axis : axes) product = std::min<uint64_t>(product * size_[axis], kTooMany);
    return product;
  };
  const uint64_t sub_axes = product_of({axis::kTensorDepth, axis::kTensorRow, axis::kTensorColumn});
  if (sub_axes != 1 && sub_axes != size_[axis::kTensor])
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the tensor axis has {} ranks, but its depth, rows and columns are {} x {} x {}; their product "
         "must be {}, or 1 for a tensor axis without them",
         strategy, size_[axis::kTensor], size_[axis::kTensorDepth], size_[axis::kTensorRow],
         size_[axis::kTensorColumn], size_[axis::kTensor]);
  const uint64_t product =
      product_of({axis::kReplica, axis::kData, axis::kExperts, axis::kStages, axis::kTensor});
  if (product != static_cast<uint64_t>(world.size()))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: a mesh of {} x {} x {} x {} x {} (replica, data, expert, pipeline, tensor) needs {} ranks, but "
         "there are {}",
         strategy, size_[axis::kReplica], size_[axis::kData], size_[axis::kExperts], size_[axis::kStages],
         size_[axis::kTensor], product, world.size());
  leaf_size_ = size_;
  if (sub_axes != 1) leaf_size_[axis::kTensor] = 1;
  const std::vector<int> place_of_rank = world.coordinate(leaf_sizes());
  for (size_t i = 0; i < place_of_rank.size(); ++i)
    leaf_coordinate_[axes_of(order_)[i]] = static_cast<uint32_t>(place_of_rank[i]);
  coordinate_ = leaf_coordinate_;
  coordinate_[axis::kTensor] = place(tensor()).rank;
  if (place(samples()).size % sequence_size_ != 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: sp_size is {}, must divide the {} data-parallel ranks of {} ranks",
         strategy, sequence_size_, place(samples()).size, world.size());
}

Axes Mesh::named(std::string_view name) {
  if (name == "samples") return sample_axes();
  if (name == "everyone") return all_axes();
  return 1u << axis_named(name, "samples, everyone, ");
}

std::vector<int> Mesh::leaf_sizes() const {
  std::vector<int> ordered;
  for (const uint32_t axis : axes_of(order_)) ordered.push_back(static_cast<int>(leaf_size_[axis]));
  return ordered;
}

Mesh::Place Mesh::place(Axes axes) const {
  Place place{0, 1};
  for (const uint32_t axis : axes_of(order_)) {
    if ((with_sub_axes(axes) >> axis & 1) == 0) continue;
    place.rank = place.rank * leaf_size_[axis] + leaf_coordinate_[axis];
    place.size *= leaf_size_[axis];
  }
  return place;
}

bool Mesh::speaks_for(Fact fact) const {
  const bool first_of_layers = place(tensor()).rank == 0;
  switch (fact) {
    case Fact::kLoss:
    case Fact::kLayers:
      return first_of_layers;
    case Fact::kOutputs:
      return first_of_layers && sequence_rank() == 0;
    case Fact::kSamples:
      return first_of_layers && sequence_rank() == 0 && place(stages()).rank == 0;
  }
  return false;
}

std::pair<int64_t, int64_t> Mesh::counted_range(Axes partition_axes, int64_t count) const {
  const Axes replicas = without(open_axes(), partition_axes);
  // A strategy that packs this parameter into one buffer with parts of unequal sizes divides it elsewhere on
  // each of the ranks along these axes.
  const Axes divided_elsewhere = common(replicas, tensor());
  if (place(divided_elsewhere).rank != 0) return {0, 0};
  const Place own = place(without(replicas, divided_elsewhere));
  const int64_t begin = count * own.rank / own.size, end = count * (own.rank + 1) / own.size;
  return {begin, end - begin};
}

std::vector<std::pair<std::string, uint32_t>> Mesh::layout() const {
  std::vector<std::pair<std::string, uint32_t>> sizes = {{"samples", place(samples()).size},
                                                         {"experts", place(experts()).size},
                                                         {"stages", place(stages()).size},
                                                         {"tensor", place(tensor()).size}};
  // Only on a mesh on which ranks have other places than in the usual order.
  if (order_ == RankOrder::kStagesOutside && splits(samples()) && splits(stages()))
    sizes.emplace_back("stages_outside", 1);
  return sizes;
}

Axes Mesh::open_axes(Axes axes) const {
  Axes open = 0;
  for (uint32_t axis = 0; axis < axis::kCount; ++axis) open |= leaf_size_[axis] > 1 ? 1u << axis : 0;
  return open & with_sub_axes(axes);
}

std::vector<Axes> Mesh::groups() const {
  const Axes open = open_axes();
  std::vector<Axes> groups;
  for (Axes axes = 0; axes <= open; ++axes)
    if (is_within(axes, open)) groups.push_back(axes);
  return groups;
}

Communicator Mesh::along(const World& world, Axes axes) const {
  std::vector<int> places;
  for (size_t i = 0; i < axis::kCount; ++i)
    if (with_sub_axes(axes) >> axes_of(order_)[i] & 1) places.push_back(static_cast<int>(i));
  return world.along(leaf_sizes(), places);
}

Communicator Mesh::sequence_ranks(const Communicator& samples) const {
  if (sequence_size_ == 1) return {};
  const uint32_t all = place(Mesh::samples()).size;
  if (sequence_size_ == all) return samples;
  Communicator mine;
  for (uint32_t first = 0; first < all; first += sequence_size_) {
    std::vector<uint32_t> members;
    for (uint32_t rank = first; rank < first + sequence_size_; ++rank) members.push_back(rank);
    if (Communicator made = samples.subset(members)) mine = std::move(made);
  }
  return mine;
}

StageRanks ranks_of_stages(const weft_mesh& sizes, RankOrder order) {
  StageRanks ranks{1, 1, 1};
  for (const uint32_t axis : axes_of(order)) {
    if (axis == axis::kStages) {
      ranks.runs = ranks.length;  // of the axes that vary slower
      ranks.length = 1;
    } else if (axis == axis::kTensor || common(1u << axis, tensor_axes()) == 0) {  // no sub-axis
      ranks.length *= sizes.size[axis];
    }
  }
  ranks.stride = ranks.length * sizes.size[axis::kStages];
  return ranks;
}

weft_strategy_arguments strategy_arguments(std::string_view name, const weft_kv* options, size_t num_options,
                                           int64_t world_size, int64_t rank, const std::string& precision) {
  return {.struct_size = sizeof(weft_strategy_arguments),
          .name = borrow(name),
          .options = options,
          .num_options = num_options,
          .world_size = static_cast<uint32_t>(world_size),
          .rank = static_cast<uint32_t>(rank),
          .precision = borrow(precision)};
}

namespace {

void require_axis(uint32_t index) {
  if (index >= axis::kCount)
    fail(WEFT_OUT_OF_RANGE, "the mesh has no axis {}: there are {}", index, uint32_t{axis::kCount});
}

void fill_axis(const weft_mesh* mesh, uint32_t index, weft_axis* out) {
  require_axis(index);
  weft_axis axis = {};
  axis.name = borrow(std::string_view(axis::kNames[index]));
  axis.index = index;
  axis.size = mesh->size[index];
  fill_out("weft_axis", axis, out);
}

void set_size(weft_mesh& mesh, uint32_t index, uint32_t size) {
  require_axis(index);
  if (size == 0) fail(WEFT_INVALID_ARGUMENT, "the axis \"{}\" cannot have size 0", axis::kNames[index]);
  if ((mesh.set_by_host >> index & 1) != 0 && size != mesh.size[index])
    fail(WEFT_INVALID_ARGUMENT, "the axis \"{}\" cannot have size {}: the host has set it to {}",
         axis::kNames[index], size, mesh.size[index]);
  mesh.size[index] = size;
}

}  // namespace

const weft_mesh_services* mesh_services() {
  static const weft_mesh_services table = {
      .struct_size = sizeof(weft_mesh_services),
      .count = [](const weft_mesh*) -> uint32_t { return axis::kCount; },
      .axis = [](const weft_mesh* mesh, uint32_t index, weft_axis* out,
                 weft_error* error) { return guarded(error, [&] { fill_axis(mesh, index, out); }); },
      .find =
          [](const weft_mesh* mesh, weft_str name, weft_axis* out, weft_error* error) {
            return guarded(error, [&] { fill_axis(mesh, axis_named(view(name), ""), out); });
          },
      .set_size = [](weft_mesh* mesh, uint32_t index, uint32_t size,
                     weft_error* error) { return guarded(error, [&] { set_size(*mesh, index, size); }); },
      .ranks_left = [](const weft_mesh* mesh) { return mesh->ranks_left; }};
  return &table;
}

weft_mesh described_mesh(const weft_strategy_api& api, weft_strategy* strategy, const std::string& name,
                         uint32_t ranks, uint32_t tensor_size, uint32_t stages) {
  if (ranks % tensor_size != 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: tp_size is {}, must divide the {} ranks", name, tensor_size, ranks);
  if (ranks / tensor_size % stages != 0)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: pp_size is {}, must divide the {} ranks of the other axes ({} / tp_size {})", name, stages,
         ranks / tensor_size, ranks, tensor_size);
  if (stages > 1 && api.run_step != nullptr)
    fail(WEFT_UNIMPLEMENTED,
         "{}: pp_size is {}, but this strategy schedules units itself, so the host cannot run them in stages",
         name, stages);
  weft_mesh mesh;
  mesh.size[axis::kTensor] = tensor_size;
  mesh.size[axis::kStages] = stages;
  mesh.set_by_host = (tensor_size > 1 ? tensor_axes() : 0) | (stages > 1 ? stage_axes() : 0);
  mesh.ranks_left = ranks / tensor_size / stages;
  if (api.describe_mesh == nullptr) {
    mesh.size[axis::kData] = mesh.ranks_left;
    return mesh;
  }
  ErrorSink error;
  error.check(api.describe_mesh(strategy, &mesh, error), name);
  return mesh;
}

}  // namespace weft
