// The operations of automatic augmentation on the 8 bits of each channel. Their results are Pillow's, to the
// last bit, for images of less than 32768 pixels a side.
#pragma once

#include "images/image.hpp"

namespace weft::data {

enum class PixelOperation {
  kIdentity,
  kShearX,        // moves row y by -magnitude y pixels
  kShearY,        // moves column x by -magnitude x pixels
  kTranslateX,    // moves the image to the right by the magnitude, without its fraction
  kTranslateY,    // moves it downwards
  kRotate,        // turns it around its middle by the magnitude in degrees, counter-clockwise
  kBrightness,    // multiplies the difference from black by 1 + magnitude,
  kColor,         // that from the grey image,
  kContrast,      // that from the mean of the grey image,
  kSharpness,     // that from the smoothed image
  kPosterize,     // keeps so many upper bits, 1 to 8
  kSolarize,      // inverts values that are at least the magnitude
  kAutoContrast,  // stretches the values of each channel to 0 ... 255
  kEqualize,      // makes the histogram of each channel uniform
  kInvert,
};

// Changes a grey or RGB image. Pixels that come from outside of the image are black.
void apply(PixelOperation operation, double magnitude, Image& image);

}  // namespace weft::data
