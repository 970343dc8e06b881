// Where ranks stand on a mesh, and which groups they form.
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
  EXPECT_EQ(mesh.place(Mesh::tensor()).size, 4u);
  EXPECT_EQ(mesh.place(Mesh::tensor()).rank, rank);
  EXPECT_EQ(mesh.coordinate(WEFT_AXIS_TENSOR), rank);
  EXPECT_EQ(mesh.place(1u << WEFT_AXIS_TENSOR).size, 4u);  // stands for its sub-axes
  EXPECT_EQ(mesh.place(kRow).rank, rank / 2);
  EXPECT_EQ(mesh.place(kColumn).rank, rank % 2);
  EXPECT_EQ(mesh.along(world, kColumn).size(), 2);
  EXPECT_EQ(mesh.along(world, kColumn).rank(), world.rank() % 2);
  EXPECT_EQ(mesh.along(world, Mesh::tensor()).size(), 4);
  // What is split over the rows is held alike along the columns, which count a half each.
  EXPECT_EQ(mesh.counted_range(kRow, 10), (std::pair<int64_t, int64_t>(rank % 2 * 5, 5)));
  EXPECT_EQ(mesh.counted_range(Mesh::tensor(), 10), (std::pair<int64_t, int64_t>(0, 10)));
  EXPECT_EQ(mesh.speaks_for(Fact::kLoss), rank == 0);
}

// Experts are on data-parallel ranks: the gradient of an expert is summed over fewer axes than others.
WEFT_RANKS_TEST(Mesh, CountsRanksOfDifferentExpertsAsDataParallel, 4) {
  weft_mesh sizes{sizeof(weft_mesh), {1, 2, 1, 1, 2, 1, 1, 1}};
  const Mesh mesh(sizes, world, "test", 1);
  EXPECT_EQ(mesh.data_size(), 4u);
  EXPECT_EQ(mesh.data_rank(), static_cast<uint32_t>(world.rank()));
  EXPECT_EQ(mesh.along(world, Mesh::gradient_sum_of(0)).size(), 4);
  EXPECT_EQ(mesh.along(world, Mesh::gradient_sum_of(Mesh::experts())).size(), 2);
  EXPECT_EQ(mesh.along(world, Mesh::gradient_sum_of(Mesh::experts())).rank(), world.rank() / 2);
  EXPECT_TRUE(mesh.speaks_for(Fact::kLoss));
}

}  // namespace

}  // namespace weft::test
