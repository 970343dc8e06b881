// Applies weft::data::ImageProcessing.
#pragma once

#include <string>
#include <vector>

#include "images/image.hpp"
#include "loader/random.hpp"

namespace weft::data {

// Throws INVALID_ARGUMENT with "<origin>: <field and value>" for values that cannot be applied to images with
// this number of channels, and for images that would differ in size.
void check_processing(const ImageProcessing& processing, int64_t channels, const std::string& origin);

// Draws the rectangle that a random crop takes of an image, as ImageOptions::random_crop describes it. If ten
// draws do not fit in the image, it is the largest one in the middle with a ratio from 3/4 to 4/3 (Szegedy et
// al., Going deeper with convolutions, arXiv:1409.4842, section 6, as torchvision's RandomResizedCrop).
Rectangle draw_crop(ImageSize image, double smallest_share, SampleRandom& random);

// Draws the rectangle of the image's own size that a crop takes of an image with so much padding on each
// side. It reaches outside of the image where padding is.
Rectangle draw_padded_crop(ImageSize image, int64_t padding, SampleRandom& random);

class ImageProcessor {
 public:
  ImageProcessor(ImageProcessing processing, int64_t channels);

  // Resizes and crops. Images that are not resized keep their size. Throws INVALID_ARGUMENT, with the name of
  // the file, for one so narrow that its longer side would become too large.
  Image sized(Image image, const std::string& name) const;
  // Resizes an image to the size of the results, in place of sized(). There must be an output_size().
  Image fitted(Image image) const;
  // Rescales and normalises `image` into `out`, which has room for (channels, height, width).
  void write(const Image& image, float* out) const;

 private:
  const ImageProcessing processing_;
  std::vector<std::vector<float>> values_;  // of each channel, by the 8 bits of a pixel
};

}  // namespace weft::data
