// Tiny ViT models for training, with sizes that are not multiples of the number of ranks.
#pragma once

#include <fmt/format.h>

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
};
inline const TinyVit kImages = {};
// Without biases of keys, whose gradients are zero in exact arithmetic.
inline const TinyVit kWithoutBiases = {kClassifier, fmt::format(R"({}, "qkv_bias": false)", kOblong)};
inline const TinyVit kMaskedImages = {kMasked, kSquare, 8, 8};
inline const TinyVit kLargerImages = {
    kMasked, R"("image_size": 4, "patch_size": 2, "encoder_stride": 2, "interpolate_pos_encoding": true)", 6,
    6};

// Returns a model with two blocks, 12 channels, 4 heads and images of 2 channels.
Model tiny_vit(const JobOptions& options, const TinyVit& vit);
// Returns images with labels or masks. The numbers of masked patches differ, so that ranks differ.
Batch vit_batch(const TinyVit& vit, int64_t samples, int64_t seed);
// Within 5e-5 of one rank in fp32 and 1e-10 in fp64.
Trial vit_trial(const TinyVit& vit, const std::string& precision = "fp64");

// Trains ViTModel under a criterion of both outputs. Collective.
Tensors vit_criterion_gradients(const World& world, const JobOptions& options);

}  // namespace weft::test
