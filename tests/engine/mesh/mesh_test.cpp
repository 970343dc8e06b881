// The places of ranks on a mesh, and the groups that they form.
#include "mesh/mesh.hpp"

#include <gtest/gtest.h>

#include "support/launch_ranks.hpp"

namespace weft::test {

namespace {

// A tensor axis laid out in two dimensions.
WEFT_RANKS_TEST(Mesh, LaysATensorAxisOutInTwoDimensions, 4) {
  weft_mesh sizes{sizeof(weft_mesh), {1, 1, 1, 4, 1, 2, 2, 1}};
  const Mesh mesh(sizes, world, "test", 1);
  constexpr Axes kRow = 1u << WEFT_AXIS_TENSOR_ROW, kColumn = 1u << WEFT_AXIS_TENSOR_COLUMN;
  const auto rank = static_cast<uint32_t>(world.rank());
  EXPECT_EQ(mesh.open_axes(), kRow | kColumn);
  EXPECT_EQ(mesh.open_axes(joined(Mesh::tensor(), Mesh::samples())), kRow | kColumn);
  EXPECT_EQ(mesh.open_axes(kColumn), kColumn);
  EXPECT_EQ(mesh.groups(), (std::vector<Axes>{0, kRow, kColumn, kRow | kColumn}));
  EXPECT_EQ(mesh.place(Mesh::tensor()).size, 4u);
  EXPECT_EQ(mesh.place(Mesh::tensor()).rank, rank);
  EXPECT_EQ(mesh.coordinate(WEFT_AXIS_TENSOR), rank);
  EXPECT_EQ(mesh.place(1u << WEFT_AXIS_TENSOR).size, 4u);  // stands for its sub-axes
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
  weft_mesh sizes{sizeof(weft_mesh), {1, 2, 1, 1, 2, 1, 1, 1}};
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
  weft_mesh sizes{sizeof(weft_mesh), {2, 1, 2, 1, 1, 1, 1, 1}};
  const Mesh mesh(sizes, world, "test", 2);
  const bool first_stage = mesh.place(Mesh::stages()).rank == 0, first_positions = mesh.sequence_rank() == 0;
  EXPECT_TRUE(mesh.speaks_for(Fact::kLoss));  // of its own positions
  EXPECT_TRUE(mesh.speaks_for(Fact::kLayers));
  EXPECT_EQ(mesh.speaks_for(Fact::kOutputs), first_positions);
  EXPECT_EQ(mesh.speaks_for(Fact::kSamples), first_positions && first_stage);
}

}  // namespace

}  // namespace weft::test
