// How flat ranges become boxes, and how boxes meet.
#include "box/box.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::checkpoint {
namespace {

TEST(Box, ARangeIsCoveredInOrderByFewBoxes) {
  const Box boxes[] = {
      {{}, {}}, {{3}, {5}}, {{1, 2}, {3, 4}}, {{0, 5, 1}, {2, 3, 4}}, {{0, 0, 0, 0}, {2, 1, 3, 2}}};
  for (const Box& box : boxes) {
    std::vector<int64_t> shape;  // of a tensor that the box lies in
    for (size_t d = 0; d < box.offset.size(); ++d) shape.push_back(box.offset[d] + box.extent[d] + 1);
    const at::Tensor tensor = at::arange(Box::whole(shape).numel()).view(shape);
    const at::Tensor flat = view_of(tensor, Box::whole(shape), box).flatten();
    for (int64_t begin = 0; begin <= box.numel(); ++begin) {
      for (int64_t count = 0; begin + count <= box.numel(); ++count) {
        std::vector<at::Tensor> parts = {flat.narrow(0, 0, 0)};
        const std::vector<Box> found = boxes_of_range(box, begin, count);
        for (const Box& part : found) parts.push_back(view_of(tensor, Box::whole(shape), part).flatten());
        EXPECT_TRUE(at::equal(at::cat(parts), flat.narrow(0, begin, count))) << begin << " " << count;
        EXPECT_LE(found.size(), std::max<size_t>(1, 2 * shape.size()));
      }
    }
  }
}

TEST(Box, AWholeTensorIsOneBox) {
  EXPECT_EQ(boxes_of_range(Box::whole({4, 5, 6}), 0, 120), std::vector<Box>{Box::whole({4, 5, 6})});
}

TEST(Box, ShareWhatLiesInBothOrNothing) {
  const Box box{{2, 0}, {4, 3}};
  EXPECT_EQ(intersection(box, {{4, 1}, {5, 1}}), (Box{{4, 1}, {2, 1}}));
  EXPECT_EQ(intersection(box, {{6, 0}, {1, 3}}), std::nullopt);
  EXPECT_EQ(intersection(Box::whole({}), Box::whole({})), Box::whole({}));
}

}  // namespace
}  // namespace weft::checkpoint
