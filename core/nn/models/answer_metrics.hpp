// How well predicted answers match the labelled ones, as make_answer_head() describes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "weft/metric.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {

// Returns the labels of the begins or the ends of answers, (N) int64. As in Hugging Face, a negative label
// counts as position 0, and a label past the last position is ignored. labels: (N) or (N, 1).
RowLabels answer_labels(const at::Tensor& labels, int64_t positions);

// Returns "exact_match" and "f1" of the samples of a batch. logits: (N, T), of begins and of ends;
// labels: (N) or (N, 1); ids: (N, T); mask: (N, T), or undefined for no padding.
std::vector<Metric> answer_metrics(const std::array<at::Tensor, 2>& logits,
                                   const std::array<at::Tensor, 2>& labels, const at::Tensor& ids,
                                   const at::Tensor& mask);

}  // namespace weft::nn
