#include "training/mesh.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "error_sink.hpp"

namespace weft {

namespace {

// Slowest first: neighbouring ranks differ in the tensor axis.
constexpr uint32_t kAxisOrder[] = {WEFT_AXIS_REPLICA, WEFT_AXIS_DATA, WEFT_AXIS_EXPERT, WEFT_AXIS_PIPELINE,
                                   WEFT_AXIS_TENSOR};
constexpr uint32_t kSampleAxes = 1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA;

std::vector<int> in_order(const std::array<uint32_t, WEFT_AXES>& sizes) {
  std::vector<int> ordered;
  for (const uint32_t axis : kAxisOrder) ordered.push_back(static_cast<int>(sizes[axis]));
  return ordered;
}

}  // namespace

Mesh::Mesh(const weft_mesh& sizes, const World& world, const std::string& strategy, uint32_t sequence_size)
    : sequence_size_(sequence_size) {
  std::copy(std::begin(sizes.size), std::end(sizes.size), size_.begin());
  for (uint32_t axis = 0; axis < WEFT_AXES; ++axis)
    if (std::find(std::begin(kAxisOrder), std::end(kAxisOrder), axis) == std::end(kAxisOrder) &&
        size_[axis] != 1)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: axis {} of the mesh has size {}, but this version has no such axis; leave 1", strategy, axis,
           size_[axis]);
  uint64_t product = 1;
  // Beyond the number of ranks it only has to stay too large.
  for (const uint32_t size : size_) product = std::min<uint64_t>(product * size, uint64_t{1} << 31);
  const std::vector<int> ordered = in_order(size_);
  if (product != static_cast<uint64_t>(world.size()))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: a mesh of {} (replica, data, expert, pipeline, tensor) needs {} ranks, but there are "
         "{}",
         strategy, fmt::join(ordered, " x "), product, world.size());
  const std::vector<int> place = world.coordinate(ordered);
  for (size_t i = 0; i < place.size(); ++i) coordinate_[kAxisOrder[i]] = static_cast<uint32_t>(place[i]);
  if (summing_size() % sequence_size_ != 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: sp_size is {}, must divide the {} data-parallel ranks of {} ranks",
         strategy, sequence_size_, summing_size(), world.size());
}

bool Mesh::speaks_for_loss() const {
  for (uint32_t axis = 0; axis < WEFT_AXES; ++axis)
    if ((kSampleAxes >> axis & 1) == 0 && coordinate_[axis] != 0) return false;
  return true;
}

uint32_t Mesh::open_axes() const {
  uint32_t axes = 0;
  for (uint32_t axis = 0; axis < WEFT_AXES; ++axis) axes |= size_[axis] > 1 ? 1u << axis : 0;
  return axes;
}

Communicator Mesh::along(const World& world, uint32_t axes) const {
  std::vector<int> places;
  for (size_t i = 0; i < std::size(kAxisOrder); ++i)
    if (axes >> kAxisOrder[i] & 1) places.push_back(static_cast<int>(i));
  return world.along(in_order(size_), places);
}

Communicator Mesh::sequence_ranks(const Communicator& summing) const {
  if (sequence_size_ == 1) return {};
  if (sequence_size_ == summing_size()) return summing;
  Communicator mine;
  for (uint32_t first = 0; first < summing_size(); first += sequence_size_) {
    std::vector<uint32_t> members;
    for (uint32_t rank = first; rank < first + sequence_size_; ++rank) members.push_back(rank);
    if (Communicator made = summing.subset(members)) mine = std::move(made);
  }
  return mine;
}

weft_strategy_arguments strategy_arguments(const weft_kv* options, size_t num_options, int64_t world_size,
                                           int64_t rank, const std::string& precision) {
  return {sizeof(weft_strategy_arguments), options,          num_options, static_cast<uint32_t>(world_size),
          static_cast<uint32_t>(rank),     borrow(precision)};
}

weft_mesh described_mesh(const weft_strategy_api& api, weft_strategy* strategy, const std::string& name,
                         const World& world, uint32_t tensor_size) {
  const auto ranks = static_cast<uint32_t>(world.size());
  if (ranks % tensor_size != 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: tp_size is {}, must divide the {} ranks", name, tensor_size, ranks);
  weft_mesh mesh{};
  mesh.struct_size = sizeof(mesh);
  std::fill(std::begin(mesh.size), std::end(mesh.size), 1u);
  mesh.size[WEFT_AXIS_TENSOR] = tensor_size;
  if (api.describe_mesh == nullptr) {
    mesh.size[WEFT_AXIS_DATA] = ranks / tensor_size;
    return mesh;
  }
  ErrorSink error;
  error.check(api.describe_mesh(strategy, &mesh, error), name);
  return mesh;
}

}  // namespace weft
