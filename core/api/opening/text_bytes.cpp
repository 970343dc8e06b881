#include "opening/text_bytes.hpp"

#include <ATen/ops/tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/tensors.hpp"
#include "loader/derived_dataset.hpp"
#include "opening/model_state.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/row_labels.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

namespace {

// Returns for each id whether it is a special token, which has no text by itself.
std::vector<bool> special_ids(const Tokenizer& tokenizer) {
  std::vector<bool> special(static_cast<size_t>(tokenizer.vocabulary_size()));
  for (size_t id = 0; id < special.size(); ++id) {
    const std::vector<int64_t> ids = {static_cast<int64_t>(id)};
    special[id] = tokenizer.decode(ids).empty() && !tokenizer.decode(ids, false).empty();
  }
  return special;
}

class TextBytes final : public data::DerivedDataset {
 public:
  // Without a tokenizer tokens are bytes.
  TextBytes(std::shared_ptr<data::Dataset> dataset, std::optional<Tokenizer> tokenizer)
      : DerivedDataset(std::move(dataset), own_name), tokenizer_(std::move(tokenizer)) {
    if (tokenizer_) special_ = special_ids(*tokenizer_);
  }

 private:
  void check(const Batch&) const override {}  // the model checks the labels
  void make(const std::vector<int64_t>&, int64_t, Batch& batch) const override {
    const at::Tensor& labels = batch.at(nn::kLabels);
    const int64_t length = labels.size(1);
    std::vector<int64_t> values = device::values_of<int64_t>(labels.to(at::kLong)), predicted;
    std::vector<double> bytes;
    for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(length)) {
      predicted.clear();
      for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
        int64_t& label = values[begin + i];
        if (is_special(label)) label = nn::kIgnored;
        if (i > 0 && label != nn::kIgnored) predicted.push_back(label);  // label 0 is never predicted
      }
      bytes.push_back(
          static_cast<double>(tokenizer_ ? tokenizer_->decode(predicted).size() : predicted.size()));
    }
    batch.set(nn::kTextLabels, at::tensor(values, at::kLong).view(labels.sizes()));
    batch.set(nn::kTextBytes, at::tensor(bytes, at::kDouble));
  }
  bool is_special(int64_t id) const {
    return id >= 0 && static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
  }

  const std::optional<Tokenizer> tokenizer_;
  std::vector<bool> special_;
};

}  // namespace

std::shared_ptr<data::Dataset> with_text_bytes(const Model& model, std::shared_ptr<data::Dataset> dataset) {
  const nn::TokenModel* const tokens = nn::find_token_model(model.module());
  if (tokens == nullptr || !tokens->continues_text() || model.module().perplexity_term().empty() ||
      dataset->size() == 0)
    return dataset;
  const std::optional<Tokenizer>& tokenizer = model.shared().tokenizer;
  const Batch first = dataset->get({0});
  if (!first.has(nn::kLabels) || first.at(nn::kLabels).dim() != 2 ||
      (!tokenizer && tokens->vocabularies().front().size != 256))
    return dataset;
  return std::make_shared<TextBytes>(std::move(dataset), tokenizer);
}

}  // namespace weft
