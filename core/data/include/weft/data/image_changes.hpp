// Random changes of images that models read: those of the values, and mixtures of two samples.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/data/dataset.hpp"

namespace weft::data {

// Each is off by default. They are applied in the order of the fields, and depend on the seed, the epoch and
// the index of the sample alone.
struct ImageChanges {
  // If not 0, every side of the image gets so many zeros, and a random part of the size before takes its
  // place.
  int64_t crop_padding = 0;
  bool random_flip = false;  // mirrors an image from left to right, with probability 1/2
  // The probability with which a random rectangle becomes 0: 2 to 33 % of the image, the logarithm of its
  // ratio of height to width uniform from that of 0.3 to that of 3.3 (Zhong et al., Random erasing data
  // augmentation, arXiv:1708.04896, with torchvision's numbers).
  double random_erasing = 0;
  // If not 0, each sample is mixed with another one, which is drawn from the whole data set: lambda of the
  // sample and 1 - lambda of the other one, lambda from the distribution Beta(mixup, mixup) (Zhang et al.,
  // mixup, arXiv:1710.09412). With cutmix a rectangle of 1 - lambda of the area is taken from the other
  // sample, lambda from Beta(cutmix, cutmix) (Yun et al., CutMix, arXiv:1905.04899). With both each sample
  // draws which.
  double mixup = 0, cutmix = 0;
  int64_t num_labels = 0;  // the number of classes, which mixtures need
  int64_t seed = 42;
};

// Returns `dataset` with changed "pixel_values" (B, C, H, W). Mixtures add "label_probabilities" (B,
// num_labels) in fp32, and "labels" (B) becomes the class of the larger share. Reading a sample then reads
// two samples of `dataset`, as the same epoch has them.
//
// Throws INVALID_ARGUMENT, here or for a later batch, for images of another rank or no floating-point
// numbers, and for mixtures without "labels" (B) of integers from 0 to num_labels - 1; for a probability that
// is not from 0 to 1 and for a negative number.
std::shared_ptr<Dataset> with_image_changes(std::shared_ptr<Dataset> dataset, const ImageChanges& changes);

}  // namespace weft::data
