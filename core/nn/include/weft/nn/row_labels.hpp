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

  // Returns the cross entropy, summed over the rows that count. Throws INVALID_ARGUMENT for another number of
  // labels than rows, and for a label that is no class.
  at::Tensor cross_entropy(const at::Tensor& logits) const;
  // Returns the number of rows that count.
  double count() const;
  // Returns "accuracy": of the rows that count, those whose largest logit is that of the label.
  Metric accuracy(const at::Tensor& logits) const;
};

}  // namespace weft::nn
