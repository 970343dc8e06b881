// A head whose loss is the cross entropy of rows of "logits".
#pragma once

#include <string>
#include <vector>

#include "weft/nn/head.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {

inline constexpr const char* kLogits = "logits";

// Reads kLabels, a class for each row.
class RowLabelHead : public Head {
 public:
  std::vector<std::string> fields() const override { return {kLabels}; }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", 1, RowLabels{batch.at(kLabels)}.cross_entropy(outputs.at(kLogits))}};
  }
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", RowLabels{batch.at(kLabels)}.count()}};
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {RowLabels{batch.at(kLabels)}.accuracy(outputs.at(kLogits))};
  }
};

}  // namespace weft::nn
