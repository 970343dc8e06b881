// The names of the fields of batches that models of several kinds share; they are Hugging Face's.
#pragma once

#include <cstdint>

namespace weft::nn {

// Of all models.
inline constexpr const char* kLabels = "labels";
// Of language models in evaluations: the labels of which the text is counted, like kLabels, and how many
// bytes their text has in UTF-8, (B).
inline constexpr const char* kTextLabels = "text_labels";
inline constexpr const char* kTextBytes = "text_bytes";
// Of classifiers: how much each class counts in the loss of a sample, (B, classes), at least 0.
inline constexpr const char* kClassWeights = "class_weights";
// Of classifiers of one label a sample: the probability of each class in the cross entropy, (B, classes).
// "labels" stands beside it and has the class that is counted as right.
inline constexpr const char* kLabelProbabilities = "label_probabilities";
// Of models of images: B images, C channels of a pixel, H and W pixels, P patches.
inline constexpr const char* kPixels = "pixel_values";            // (B, C, H, W)
inline constexpr const char* kMaskedPatches = "bool_masked_pos";  // (B, P), 1 or 0; in a State boolean
// Of models of recordings.
inline constexpr const char* kSpectra = "input_features";  // (N, mel bins, frames)

// The label of a position that the loss ignores, as in PyTorch's cross entropy.
inline constexpr int64_t kIgnored = -100;

}  // namespace weft::nn
