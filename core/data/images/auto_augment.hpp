// Automatic augmentation: random sequences of operations on pixels.
#pragma once

#include "images/image.hpp"
#include "images/pixel_operations.hpp"
#include "loader/random.hpp"

namespace weft::data {

// An operation that is drawn, with its magnitude.
struct DrawnOperation {
  PixelOperation operation = PixelOperation::kIdentity;
  double magnitude = 0;
};
// Draws the operations for an image of this size, in the order in which they are applied.
std::vector<DrawnOperation> draw_operations(AutoAugment kind, ImageSize size, SampleRandom& random);

}  // namespace weft::data
