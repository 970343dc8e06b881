// The labels of language models: the next tokens, or masked ones (Devlin et al., pre-training of deep
// bidirectional transformers, arXiv:1810.04805, section 3.1 and appendix A.1).
#include <ATen/ops/full_like.h>

#include <algorithm>

#include "base/text.hpp"
#include "loader/derived_dataset.hpp"
#include "loader/objectives.hpp"
#include "loader/random.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

constexpr double kBecomesMask = 0.8, kBecomesRandom = 0.1;  // the others stay as they are

// A data set with the ids of another one and labels that are made from them.
class LabelledTokens : public DerivedDataset {
 public:
  LabelledTokens(std::shared_ptr<Dataset> dataset, std::string field, SettingName called)
      : DerivedDataset(std::move(dataset), std::move(called)), field_(std::move(field)) {
    const Batch first = first_sample();
    LabelledTokens::check(first);
    // Windows of a text have the ids as labels.
    if (first.has(nn::kLabels) && !first.at(nn::kLabels).is_same(first.at(field_))) refuse_given(nn::kLabels);
  }

 protected:
  // Sets the labels in `batch`. `tokens` is true where `ids` is not padding; both are contiguous, (B, ...).
  virtual void make_labels(const std::vector<int64_t>& indices, int64_t epoch, const at::Tensor& ids,
                           const at::Tensor& tokens, Batch& batch) const = 0;
  const std::string& field() const { return field_; }

 private:
  void check(const Batch& batch) const final {
    const at::Tensor* ids = batch.find(field_);
    if (ids == nullptr) refuse(fmt::format("the samples have no \"{}\" to make labels from", field_));
    if (ids->scalar_type() != at::kLong && ids->scalar_type() != at::kInt)
      refuse(fmt::format("the dtype of \"{}\" is {}, must be int64 or int32, because ids are integers",
                         field_, c10::toString(ids->scalar_type())));
    const at::Tensor* mask = batch.find(nn::kAttentionMask);
    if (mask != nullptr && mask->sizes() != ids->sizes())
      refuse(fmt::format("the shape of \"{}\" is [{}], must be that of \"{}\", which is [{}]",
                         nn::kAttentionMask, fmt::join(mask->sizes(), ", "), field_,
                         fmt::join(ids->sizes(), ", ")));
  }

  void make(const std::vector<int64_t>& indices, int64_t epoch, Batch& batch) const final {
    const at::Tensor ids = batch.at(field_).to(at::kLong).contiguous();
    const at::Tensor* mask = batch.find(nn::kAttentionMask);
    make_labels(indices, epoch, ids, mask ? mask->ne(0).contiguous() : ids.eq(ids), batch);
  }

  const std::string field_;
};

class NextTokens final : public LabelledTokens {
 public:
  using LabelledTokens::LabelledTokens;
  std::string objective() const override { return "causal_lm"; }

 private:
  void make_labels(const std::vector<int64_t>&, int64_t, const at::Tensor& ids, const at::Tensor& tokens,
                   Batch& batch) const override {
    batch.set(nn::kLabels, ids.masked_fill(tokens.logical_not(), nn::kIgnored));
  }
};

class MaskedTokens final : public LabelledTokens {
 public:
  MaskedTokens(std::shared_ptr<Dataset> dataset, TokenMasking masking, SettingName called)
      : LabelledTokens(std::move(dataset), masking.field, std::move(called)),
        masking_(std::move(masking)),
        never_(static_cast<size_t>(masking_.vocabulary), false) {
    never_.at(static_cast<size_t>(masking_.mask_token_id)) = true;
    for (const int64_t id : masking_.special_ids) never_.at(static_cast<size_t>(id)) = true;
  }
  std::string objective() const override {
    std::vector<int64_t> special = masking_.special_ids;
    std::sort(special.begin(), special.end());
    special.erase(std::unique(special.begin(), special.end()), special.end());
    return with_objective_before(
        fmt::format("masked_lm with mask_token_id {}, special_ids [{}], mlm_probability {} and seed {}",
                    masking_.mask_token_id, fmt::join(special, ", "), masking_.probability, masking_.seed));
  }

 private:
  void make_labels(const std::vector<int64_t>& indices, int64_t epoch, const at::Tensor& ids,
                   const at::Tensor& tokens, Batch& batch) const override {
    const at::Tensor masked = ids.clone(), labels = at::full_like(ids, nn::kIgnored);
    const int64_t length = ids.numel() / static_cast<int64_t>(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      const int64_t begin = static_cast<int64_t>(i) * length;
      SampleRandom random(masking_.seed, epoch, indices[i]);
      mask(masked.mutable_data_ptr<int64_t>() + begin, tokens.const_data_ptr<bool>() + begin, length,
           labels.mutable_data_ptr<int64_t>() + begin, random);
    }
    batch.set(field(), masked);
    batch.set(nn::kLabels, labels);
  }

  // An id outside the vocabulary is left for the model to refuse.
  bool is_candidate(int64_t id, bool token) const {
    return token && id >= 0 && id < masking_.vocabulary && !never_[static_cast<size_t>(id)];
  }

  void mask(int64_t* ids, const bool* tokens, int64_t length, int64_t* labels, SampleRandom& random) const {
    std::vector<int64_t> candidates;
    for (int64_t t = 0; t < length; ++t)
      if (is_candidate(ids[t], tokens[t])) candidates.push_back(t);
    bool chosen = false;
    for (const int64_t t : candidates) {
      if (random.unit() >= masking_.probability) continue;
      replace(ids[t], labels[t], random);
      chosen = true;
    }
    // A batch without a label has no loss, so that a short sample could end the training.
    if (chosen || candidates.empty()) return;
    const int64_t t = candidates[draw_below(candidates.size(), random)];
    replace(ids[t], labels[t], random);
  }

  void replace(int64_t& id, int64_t& label, SampleRandom& random) const {
    label = id;
    const double kind = random.unit();
    if (kind < kBecomesMask)
      id = masking_.mask_token_id;
    else if (kind < kBecomesMask + kBecomesRandom)
      id = static_cast<int64_t>(draw_below(static_cast<uint64_t>(masking_.vocabulary), random));
  }

  const TokenMasking masking_;
  std::vector<bool> never_;  // by id: whether it is special
};

}  // namespace

std::shared_ptr<Dataset> with_next_tokens(std::shared_ptr<Dataset> dataset, const std::string& field,
                                          SettingName called) {
  return std::make_shared<NextTokens>(std::move(dataset), field, std::move(called));
}

std::shared_ptr<Dataset> with_masked_tokens(std::shared_ptr<Dataset> dataset, TokenMasking masking,
                                            SettingName called) {
  return std::make_shared<MaskedTokens>(std::move(dataset), std::move(masking), std::move(called));
}

}  // namespace weft::data
