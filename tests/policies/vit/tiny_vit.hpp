// Tiny ViT models for training, with sizes that are not multiples of the number of ranks.
#pragma once

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

inline constexpr const char* kClassifier = "ViTForImageClassification";
inline constexpr const char* kMasked = "ViTForMaskedImageModeling";
// Keys of the configuration: images of 2 by 3, 4 by 4 and 1 by 1 patches.
inline constexpr const char* kOblong = R"("image_size": [5, 9], "patch_size": [2, 3])";
inline constexpr const char* kSquare = R"("image_size": 8, "patch_size": 2, "encoder_stride": 2)";
inline constexpr const char* kOnePatch = R"("image_size": [2, 3], "patch_size": [2, 3])";

// What a trial trains. The image size is that of its batches.
struct TinyVit {
  std::string architecture = kClassifier;
  std::string keys = kOblong;
  int64_t height = 5, width = 9;
  double dropout = 0;
  bool biases = true;  // of queries, keys and values
};

// Returns a model with two blocks, 12 channels, 4 heads and images of 2 channels.
Model tiny_vit(const TinyVit& vit, const std::string& precision);
// Returns images, with the labels or masks of the class. The numbers of masked patches differ, so that ranks
// differ.
Batch vit_batch(const TinyVit& vit, int64_t samples, int64_t seed);
// With batches of 7 images.
Trial vit_trial(const TinyVit& vit, const std::string& precision);

}  // namespace weft::test
