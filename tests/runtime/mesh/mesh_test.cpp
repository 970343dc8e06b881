// The places of ranks on a mesh, and the groups that they form.
#include "mesh/mesh.hpp"

#include <gtest/gtest.h>

#include "support/launch_ranks.hpp"

namespace weft::test {

namespace {

weft_mesh mesh_of(const std::array<uint32_t, axis::kCount>& size) {
  weft_mesh mesh;
  mesh.size = size;
  return mesh;
}

// A tensor axis laid out in two dimensions.
WEFT_RANKS_TEST(Mesh, LaysATensorAxisOutInTwoDimensions, 4) {
  weft_mesh sizes = mesh_of({1, 1, 1, 4, 1, 2, 2, 1});
  const Mesh mesh(sizes, world, "test", 1);
  constexpr Axes kRow = 1u << axis::kTensorRow, kColumn = 1u << axis::kTensorColumn;
  const auto rank = static_cast<uint32_t>(world.rank());
  EXPECT_EQ(mesh.open_axes(), kRow | kColumn);
  EXPECT_EQ(mesh.open_axes(joined(Mesh::tensor(), Mesh::samples())), kRow | kColumn);
  EXPECT_EQ(mesh.open_axes(kColumn), kColumn);
  EXPECT_EQ(mesh.groups(), (std::vector<Axes>{0, kRow, kColumn, kRow | kColumn}));
  EXPECT_EQ(mesh.place(Mesh::tensor()).size, 4u);
  EXPECT_EQ(mesh.place(Mesh::tensor()).rank, rank);
  EXPECT_EQ(mesh.coordinate(axis::kTensor), rank);
  EXPECT_EQ(mesh.place(1u << axis::kTensor).size, 4u);  // stands for its sub-axes
  EXPECT_EQ(mesh.place(kRow).rank, rank / 2);
  EXPECT_EQ(mesh.place(kColumn).rank, rank % 2);
  EXPECT_EQ(mesh.along(world, kColumn).size(), 2);
  EXPECT_EQ(mesh.along(world, kColumn).rank(), world.rank() % 2);
  EXPECT_EQ(mesh.along(world, Mesh::tensor()).size(), 4);
  // The other columns may hold other ranges of a parameter that is split over rows only.
  EXPECT_EQ(mesh.counted_range(kRow, 10), (std::pair<int64_t, int64_t>(0, rank % 2 == 0 ? 10 : 0)));
  EXPECT_EQ(mesh.counted_range(Mesh::tensor(), 10), (std::pair<int64_t, int64_t>(0, 10)));
  // The other tensor-parallel ranks may hold other ranges of one that they do not split.
  EXPECT_EQ(mesh.counted_range(0, 10), (std::pair<int64_t, int64_t>(0, rank == 0 ? 10 : 0)));
  for (const Fact fact : {Fact::kLoss, Fact::kOutputs, Fact::kSamples, Fact::kLayers})
    EXPECT_EQ(mesh.speaks_for(fact), rank == 0);
}

// Experts live on data-parallel ranks, so the gradient of an expert is summed over fewer axes than others.
WEFT_RANKS_TEST(Mesh, CountsRanksOfDifferentExpertsAsDataParallel, 4) {
  weft_mesh sizes = mesh_of({1, 2, 1, 1, 2, 1, 1, 1});
  const Mesh mesh(sizes, world, "test", 1);
  EXPECT_EQ(mesh.data_size(), 4u);
  EXPECT_EQ(mesh.data_rank(), static_cast<uint32_t>(world.rank()));
  const Axes sum_of_experts = without(Mesh::samples(), Mesh::experts());
  EXPECT_TRUE(is_within(sum_of_experts, Mesh::samples()));
  EXPECT_FALSE(is_within(Mesh::samples(), sum_of_experts));
  EXPECT_EQ(mesh.along(world, Mesh::samples()).size(), 4);
  EXPECT_EQ(mesh.along(world, sum_of_experts).size(), 2);
  EXPECT_EQ(mesh.along(world, sum_of_experts).rank(), world.rank() / 2);
  EXPECT_TRUE(mesh.speaks_for(Fact::kLoss));
}

// Two stages of two ranks that share their sequences. Every stage may run the last unit.
WEFT_RANKS_TEST(Mesh, ChoosesOneRankOfThoseThatKnowTheSame, 4) {
  weft_mesh sizes = mesh_of({2, 1, 2, 1, 1, 1, 1, 1});
  const Mesh mesh(sizes, world, "test", 2);
  const bool first_stage = mesh.place(Mesh::stages()).rank == 0, first_positions = mesh.sequence_rank() == 0;
  EXPECT_TRUE(mesh.speaks_for(Fact::kLoss));  // of its own positions
  EXPECT_TRUE(mesh.speaks_for(Fact::kLayers));
  EXPECT_EQ(mesh.speaks_for(Fact::kOutputs), first_positions);
  EXPECT_EQ(mesh.speaks_for(Fact::kSamples), first_positions && first_stage);
}

// Two data-parallel ranks, two stages and two tensor-parallel ranks, numbered either way.
WEFT_RANKS_TEST(Mesh, NumbersRanksWithSamplesOrStagesOutside, 8) {
  weft_mesh sizes = mesh_of({2, 1, 2, 2, 1, 1, 1, 1});
  const auto rank = static_cast<uint32_t>(world.rank());
  const uint32_t slow = rank / 4, fast = rank / 2 % 2, tensor = rank % 2;
  for (const RankOrder order : {RankOrder::kSamplesOutside, RankOrder::kStagesOutside}) {
    const bool stages_outside = order == RankOrder::kStagesOutside;
    SCOPED_TRACE(stages_outside);
    const Mesh mesh(sizes, world, "test", 1, order);
    const uint32_t data = stages_outside ? fast : slow, stage = stages_outside ? slow : fast;
    EXPECT_EQ(mesh.coordinate(axis::kData), data);
    EXPECT_EQ(mesh.coordinate(axis::kStages), stage);
    EXPECT_EQ(mesh.coordinate(axis::kTensor), tensor);
    EXPECT_EQ(mesh.data_rank(), data);
    EXPECT_EQ(mesh.place(Mesh::stages()).rank, stage);
    EXPECT_EQ(mesh.place(joined(Mesh::samples(), Mesh::stages())).rank, 2 * slow + fast);
    // The ranks of a group, in the order of the places that its members have.
    const auto members = [&](Axes axes) {
      const Communicator group = mesh.along(world, axes);
      EXPECT_EQ(static_cast<uint32_t>(group.rank()), mesh.place(axes).rank);
      std::vector<int> ranks;
      for (int member = 0; member < group.size(); ++member) ranks.push_back(group.rank_in_job(member));
      return ranks;
    };
    const int far = static_cast<int>(2 * fast + tensor), near = static_cast<int>(4 * slow + tensor);
    EXPECT_EQ(members(Mesh::samples()),
              stages_outside ? (std::vector<int>{near, near + 2}) : (std::vector<int>{far, far + 4}));
    EXPECT_EQ(members(Mesh::stages()),
              stages_outside ? (std::vector<int>{far, far + 4}) : (std::vector<int>{near, near + 2}));
    // Each of the replicas counts another part.
    EXPECT_EQ(mesh.counted_range(0, 8),
              (std::pair<int64_t, int64_t>(tensor == 0 ? 2 * (2 * slow + fast) : 0, tensor == 0 ? 2 : 0)));
    const StageRanks ranks = ranks_of_stages(sizes, order);
    EXPECT_EQ(rank / ranks.length % 2, stage);
    EXPECT_EQ(ranks.length * ranks.runs, 4u);
    EXPECT_EQ(ranks.stride, 2 * ranks.length);
    // Ranks do not go on with the random numbers of a rank that had another place.
    const Mesh usual(sizes, world, "test", 1);
    EXPECT_EQ(mesh.layout() == usual.layout(), !stages_outside);
  }
  const weft_mesh only_stages = mesh_of({1, 1, 4, 2, 1, 1, 1, 1});
  EXPECT_EQ(Mesh(only_stages, world, "test", 1, RankOrder::kStagesOutside).layout(),
            Mesh(only_stages, world, "test", 1).layout());
}

}  // namespace

}  // namespace weft::test
