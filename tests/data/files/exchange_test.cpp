// Parts of tensors move between ranks however both sides cut them.
#include <ATen/ATen.h>

#include "data/files/range_pieces.hpp"
#include "files/piece.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::checkpoint {
namespace {

using test::add_own_part;
using test::add_range;
using test::Shape;

// Every rank receives what it wants and nothing else; returns the bytes that this rank sent.
int64_t expect_exchanged(const Communicator& ranks, const Shape& shape, const Pieces& held,
                         const std::vector<Wanted>& wanted) {
  const std::vector<TensorHolders> all_holders = gather_holders(ranks, held);
  EXPECT_EQ(all_holders.size(), 1u);
  EXPECT_TRUE(all_holders[0].is_whole());
  at::Tensor times = at::zeros(shape, at::kLong), expected = at::zeros(shape, at::kLong);
  for (const Wanted& want : wanted)
    if (want.rank == ranks.rank()) view_of(expected, Box::whole(shape), want.box).add_(1);
  const int64_t before = communicated_bytes()["send"];
  exchange(ranks, all_holders[0], by_name(held), wanted, [&](const Box& part, const at::Tensor& values) {
    EXPECT_TRUE(at::equal(values, view_of(test::range_tensor(shape), Box::whole(shape), part)));
    view_of(times, Box::whole(shape), part).add_(1);
  });
  EXPECT_TRUE(at::equal(times, expected));
  return communicated_bytes()["send"] - before;
}

WEFT_RANKS_TEST(Exchange, BringsWhateverEachRankWants, 1, 3) {
  const Shape shape = {7, 5};
  Pieces held;
  add_own_part(world.communicator(), shape, held);
  std::vector<Wanted> wanted;
  for (int to = 0; to < world.size(); ++to)
    for (const Box& box : boxes_of_range(Box::whole(shape), to * 11, 13)) wanted.push_back({to, box});
  expect_exchanged(world.communicator(), shape, held, wanted);
}

WEFT_RANKS_TEST(Exchange, SendsNoRankWhatItHas, 2) {
  const Shape shape = {4, 3};
  Pieces held;
  add_range(shape, 0, 12, false, held);
  add_range(shape, 6 * world.rank(), 6, true, held);
  EXPECT_EQ(
      expect_exchanged(world.communicator(), shape, held, {{0, Box::whole(shape)}, {1, Box::whole(shape)}}),
      0);
  // Without the master's copy only the other half moves.
  if (world.is_master()) held.erase(held.begin());
  EXPECT_EQ(expect_exchanged(world.communicator(), shape, held, {{0, Box::whole(shape)}}),
            world.is_master() ? 0 : 6 * 4);
}

WEFT_RANKS_TEST(Exchange, KnowsWhenSomethingIsMissing, 2) {
  Pieces held;
  add_range({4, 3}, 0, world.is_master() ? 5 : 0, true, held);
  EXPECT_FALSE(gather_holders(world.communicator(), held)[0].is_whole());
  // As many elements as the tensor has, half of them twice.
  held.clear();
  add_range({4, 3}, 0, 6, true, held);
  EXPECT_FALSE(gather_holders(world.communicator(), held)[0].is_whole());
}

WEFT_RANKS_TEST(Exchange, RefusesTensorsThatDifferBetweenRanks, 2) {
  Pieces held;
  add_range(world.is_master() ? Shape{4, 3} : Shape{3, 4}, 0, 12, true, held);
  EXPECT_ERROR(gather_holders(world.communicator(), held), WEFT_INTERNAL, "(4, 3)", "(3, 4)", "rank 1");
}

}  // namespace
}  // namespace weft::checkpoint
