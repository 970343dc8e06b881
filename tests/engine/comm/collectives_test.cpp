// Every collective against its definition, on 1, 2 and 3 ranks.
#include <ATen/ATen.h>

#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"

namespace weft {
namespace {

using test::is_near;

// A tensor of one value, and values that tell rank and place apart.
at::Tensor filled(int64_t count, double value, at::ScalarType dtype) {
  return at::full({count}, value, dtype);
}

WEFT_RANKS_TEST(AllReduce, SumsOverRanksInEveryType, 1, 2, 3) {
  const int size = world.size();
  for (const auto dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte}) {
    const at::Tensor tensor = filled(5, world.rank() + 1, dtype);
    world.communicator().all_reduce(tensor).wait();
    EXPECT_TRUE(at::equal(tensor, filled(5, size * (size + 1) / 2, dtype))) << dtype;
  }
}

}  // namespace
}  // namespace weft
