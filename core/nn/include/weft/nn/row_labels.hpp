// Rows of logits against their labels: the loss, the number of labels and the accuracy.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/metric.hpp"
#include "weft/nn/batch_fields.hpp"

namespace weft::nn {

// The labels of rows of logits: a class for each row, or `ignored`. Logits: (..., classes).
struct RowLabels {
  at::Tensor labels;           // integers, of any shape with as many elements as there are rows
  int64_t ignored = kIgnored;  // the label of a row that does not count
  // (B, classes): how much each class counts in the rows of each sample, of which there are as many in all
  // samples. Undefined: 1.
  at::Tensor weights = {};

  // Returns the cross entropy, summed over the rows that count, each multiplied by the weight of its label.
  // Throws INVALID_ARGUMENT for another number of labels than rows, and for a label that is no class.
  at::Tensor cross_entropy(const at::Tensor& logits) const;
  // Returns the number of rows that count, or the sum of the weights of their labels.
  double count() const;
  // Returns "accuracy": of the rows that count, those whose largest logit is that of the label.
  Metric accuracy(const at::Tensor& logits) const;
  // Returns "classes", of Metric::kClasses, of the same rows and predictions.
  Metric classes(const at::Tensor& logits) const;

 private:
  at::Tensor row_weights(at::ScalarType dtype) const;  // of each row, in the shape of the labels
};

}  // namespace weft::nn
