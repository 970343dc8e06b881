#include "weft/nn/token_model.hpp"

#include <ATen/ops/diff.h>
#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/masks.hpp"

namespace weft::nn {

const TokenModel* find_token_model(const Model& model) {
  return dynamic_cast<const TokenModel*>(&model);
}

TokenInputs::TokenInputs(TokenOptions options)
    : options_(std::move(options)),
      ids_(options_.decoder ? kDecoderInputIds : kInputIds),
      mask_(options_.decoder ? kDecoderAttentionMask : kAttentionMask),
      positions_(options_.decoder ? kDecoderPositions : kPositions) {}

std::vector<std::string> TokenInputs::fields() const {
  std::vector<std::string> fields = {ids_, mask_};
  if (options_.position_ids) fields.push_back(positions_);
  if (options_.token_types > 0) fields.push_back(kTokenTypes);
  if (options_.packs && !options_.decoder) fields.push_back(kDocumentIds);
  return fields;
}

std::vector<std::string> TokenInputs::consumed() const {
  std::vector<std::string> fields = {ids_, kTokenTypes};
  if (!options_.blocks_need_positions) fields.push_back(positions_);
  return fields;
}

void TokenInputs::read(const BatchFields& batch, State& state) const {
  const at::Tensor ids = checked_ids(batch, ids_);
  const int64_t positions = ids.size(-1);
  state.set(ids_, ids.reshape({-1, positions}));
  if (options_.token_types > 0 && batch.has(kTokenTypes)) {
    batch.require_shape(kTokenTypes, {ids.sizes().vec()});
    batch.require_range(kTokenTypes, options_.token_types);
    state.set(kTokenTypes, batch.integers(kTokenTypes).reshape({-1, positions}));
  }
  const bool has_positions = options_.position_ids && batch.has(positions_);
  if (has_positions) state.set(positions_, position_ids(batch, ids));
  at::Tensor mask = padding_mask(batch, mask_, ids.sizes(), options_.dtype);
  const at::Tensor begins = documents(batch, ids, has_positions ? state.at(positions_) : at::Tensor());
  if (begins.defined()) {
    if (mask.defined())
      batch.refuse(mask_, fmt::format("it masks padding, but {} say that rows have several documents; give "
                                      "padding a document of its own in place of the mask",
                                      kDocumentIds));
    mask = begins;
    if (options_.position_ids && !has_positions)
      state.set(positions_, on_device_of(ids, positions_in_documents(begins)));
  }
  if (mask.defined()) state.set(mask_, mask);
}

at::Tensor TokenInputs::documents(const BatchFields& batch, const at::Tensor& ids,
                                  const at::Tensor& positions) const {
  if (!options_.packs) return {};
  const int64_t count = ids.size(-1), rows = ids.numel() / count;
  // Two values that differ by `step` belong to one document.
  const auto begins = [&](const at::Tensor& values, int64_t step) {
    return document_begins(at::diff(values, 1, -1, values.slice(-1, 0, 1) - step).ne(step), rows);
  };
  if (!options_.decoder && batch.has(kDocumentIds)) {
    batch.require_shape(kDocumentIds, {ids.sizes().vec(), {rows, count}});
    return begins(batch.integers(kDocumentIds).reshape({rows, count}), 0);
  }
  if (!options_.positions_mark_documents || !positions.defined() || batch.has(mask_)) return {};
  return begins(positions, 1);
}

at::Tensor TokenInputs::checked_ids(const BatchFields& batch, const char* name, bool ignored) const {
  const at::Tensor ids = batch.integers(name);
  const bool right_dims = ids.dim() == 2 || (ids.dim() == 3 && options_.choices);
  if (!right_dims || ids.numel() == 0) {
    batch.refuse(name, fmt::format("its shape is {}, must be (samples, {}positions), none of them 0",
                                   shape_text(ids.sizes()), options_.choices ? "choices, " : ""));
  }
  if (options_.positions > 0 && ids.size(-1) > options_.positions) {
    batch.refuse(name, fmt::format("it has {} positions, but \"{}\" of the configuration is {}", ids.size(-1),
                                   options_.positions_key, options_.positions));
  }
  batch.require_range(name, options_.vocabulary, ignored);
  return ids;
}

at::Tensor TokenInputs::position_ids(const BatchFields& batch, const at::Tensor& ids) const {
  const int64_t positions = ids.size(-1), rows = ids.numel() / positions;
  batch.require_shape(positions_, {ids.sizes().vec(), {rows, positions}, {1, positions}});
  if (options_.positions > 0) batch.require_range(positions_, options_.positions);
  return batch.integers(positions_).reshape({-1, positions});
}

std::vector<int64_t> TokenInputs::shape(const Batch& batch) const {
  return batch.at(ids_).sizes().vec();
}

void TokenInputs::add_example(int64_t samples, int64_t positions, Batch& batch) const {
  const at::Tensor ids = at::zeros({samples, positions}, at::kLong);
  batch.set(ids_, options_.choices ? ids.unsqueeze(1) : ids);
}

Decoding TokenInputs::decoding() const {
  return {.ids = ids_,
          .mask = mask_,
          .positions = options_.position_ids ? positions_ : "",
          .vocabulary = options_.vocabulary,
          .longest = options_.positions,
          .longest_key = options_.positions_key,
          .encoder = {}};
}

std::vector<Vocabulary> TokenInputs::vocabularies() const {
  std::vector<Vocabulary> vocabularies = {{ids_, options_.vocabulary}};
  if (options_.token_types > 0) vocabularies.push_back({kTokenTypes, options_.token_types});
  return vocabularies;
}

}  // namespace weft::nn
