// How well predicted answers match the labelled ones, as make_answer_head() describes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "weft/metric.hpp"

namespace weft::nn {

// Returns "exact_match" and "f1" of the samples of a batch. logits: (N, T), of begins and of ends;
// labels: (N) or (N, 1); ids: (N, T); mask: (N, T), or undefined for no padding.
std::vector<Metric> answer_metrics(const std::array<at::Tensor, 2>& logits,
                                   const std::array<at::Tensor, 2>& labels, const at::Tensor& ids,
                                   const at::Tensor& mask);

}  // namespace weft::nn
