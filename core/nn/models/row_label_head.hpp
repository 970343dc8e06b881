// A head whose loss is the cross entropy of rows of "logits".
#pragma once

#include <string>
#include <vector>

#include "weft/nn/head.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {

inline constexpr const char* kLogits = "logits";

// Reads kLabels, a class for each row, and kClassWeights where fields() has it.
class RowLabelHead : public Head {
 public:
  std::vector<std::string> fields() const override { return {kLabels}; }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", 1, row_labels(batch).cross_entropy(outputs.at(kLogits))}};
  }
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", row_labels(batch).count()}};
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {RowLabels{batch.at(kLabels)}.accuracy(outputs.at(kLogits))};
  }

 private:
  static RowLabels row_labels(const Batch& batch) {
    return {batch.at(kLabels), kIgnored, find_or_undefined(batch, kClassWeights)};
  }
};

}  // namespace weft::nn
