#include "text/text_samples.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

// Returns the name. Throws for a length that no sample has.
std::string checked_name(std::string name, const SampleOptions& options) {
  if (options.sequence_length >= 2) return name;
  fail(WEFT_INVALID_ARGUMENT, "{}: sequence length is {}, must be at least 2 (--sequence-length)", name,
       options.sequence_length);
}

}  // namespace

TextSamples::TextSamples(TokenCache cache, std::string name, SampleOptions options)
    : cache_(std::move(cache)),
      name_(checked_name(std::move(name), options)),
      options_(options),
      chosen_(choose_documents(cache_, name_, options_)) {
  options_.packing == Packing::kNone ? count_padded() : count_packed();
  if (size_ == 0) refuse_without_samples();
}

void TextSamples::count_padded() {
  const int64_t step = options_.sequence_length - (options_.overlap ? 1 : 0);
  for (const int64_t document : chosen())
    for (int64_t offset = 0; offset < length(document); offset += step)
      if (predicts(document, offset, std::min(length(document) - offset, options_.sequence_length), true))
        padded_.push_back({document, offset});
      else if (!options_.overlap)
        ++without_label_;
  size_ = static_cast<int64_t>(padded_.size());
}

void TextSamples::count_packed() {
  begins_ = {0};
  begins_.reserve(chosen().size() + 1);
  int64_t shortest = std::numeric_limits<int64_t>::max();
  for (const int64_t document : chosen()) {
    begins_.push_back(begins_.back() + length(document));
    shortest = std::min(shortest, length(document));
  }
  const int64_t all = size_ = begins_.back() / options_.sequence_length;
  // Of three ids one has a label, if that is missing only where a document begins.
  const bool all_predict =
      cache_.unlabelled_from(0).empty() && shortest >= 2 && options_.sequence_length >= 3;
  if (!options_.labels || all_predict) return;
  for (int64_t index = 0; index < all; ++index) {
    const bool predicts = predicts_packed(index);
    if (!predicts && without_label_++ == 0) {
      kept_.resize(static_cast<size_t>(index));
      std::iota(kept_.begin(), kept_.end(), int64_t{0});
    }
    if (predicts && without_label_ > 0) kept_.push_back(index);
  }
  size_ = all - without_label_;
}

bool TextSamples::predicts(int64_t document, int64_t offset, int64_t count, bool begins_sample) const {
  const bool crosses = offset == 0 && options_.packing == Packing::kDocuments;  // as copy() has it
  int64_t at = cache_.begin(document) + offset;
  const int64_t end = at + count;
  if (begins_sample || crosses) ++at;
  for (const IdRange& range : cache_.unlabelled_from(at)) {
    if (static_cast<int64_t>(range.begin) > at) break;
    at = static_cast<int64_t>(range.end);
  }
  return at < end;
}

bool TextSamples::predicts_packed(int64_t index) const {
  bool found = false, is_first = true;
  for_each_part(index, [&](int64_t document, int64_t offset, int64_t count) {
    found = predicts(document, offset, count, is_first);
    is_first = false;
    return !found;
  });
  return found;
}

void TextSamples::for_each_part(
    int64_t index, const std::function<bool(int64_t document, int64_t offset, int64_t count)>& take) const {
  const int64_t begin = index * options_.sequence_length, end = begin + options_.sequence_length;
  auto next = std::upper_bound(begins_.begin(), begins_.end(), begin) - 1;
  for (int64_t at = begin; at < end; ++next) {
    const int64_t count = std::min(end, *(next + 1)) - at;
    if (!take(chosen()[static_cast<size_t>(next - begins_.begin())], at - *next, count)) return;
    at += count;
  }
}

void TextSamples::refuse_without_samples() const {
  if (without_label_ > 0)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}: no sample of its {} documents has a label: prompts fill samples of {} tokens, or documents have "
        "one token; give a larger --sequence-length",
        name_, documents(), options_.sequence_length);
  fail(WEFT_INVALID_ARGUMENT,
       "{}: {} tokens in {} documents, shorter than one sample of {}; give more text, a smaller "
       "--sequence-length, or --packing none",
       name_, begins_.back(), documents(), options_.sequence_length);
}

Batch TextSamples::get(const std::vector<int64_t>& indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t length = options_.sequence_length;
  const bool pads = options_.packing == Packing::kNone, masks = pads && !options_.overlap;
  // Padding on the right needs no positions: those of the tokens are 0, 1, ...
  const bool has_positions = options_.positions && !options_.overlap &&
                             (pads ? options_.pads_left : options_.packing == Packing::kDocuments);
  const at::Tensor ids = at::full({count, length}, options_.padding, at::kLong);
  const at::Tensor labels = at::full({count, length}, nn::kIgnored, at::kLong);
  const at::Tensor positions = has_positions ? at::zeros({count, length}, at::kLong) : at::Tensor();
  const at::Tensor mask = masks ? at::zeros({count, length}, at::kLong) : at::Tensor();
  const at::Tensor documents = has_documents() ? at::zeros({count, length}, at::kLong) : at::Tensor();
  const auto row_of = [&](const at::Tensor& tensor, int64_t row) {
    return tensor.defined() ? tensor.mutable_data_ptr<int64_t>() + row * length : nullptr;
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    if (index < 0 || index >= size_)
      fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name_, index, size_);
    const Row row{row_of(ids, i), row_of(labels, i), row_of(positions, i), row_of(mask, i),
                  row_of(documents, i)};
    pads ? fill_padded(index, row) : fill_packed(index, row);
  }
  Batch batch;
  batch.set(nn::kInputIds, ids);
  if (options_.labels) batch.set(nn::kLabels, labels);
  if (positions.defined()) batch.set(nn::kPositions, positions);
  if (mask.defined()) batch.set(nn::kAttentionMask, mask);
  if (documents.defined()) batch.set(nn::kDocumentIds, documents);
  return batch;
}

std::string TextSamples::attention() const {
  if (options_.packing != Packing::kDocuments) return "";
  return options_.attention == PackedAttention::kDocument ? "document" : "sample";
}

void TextSamples::fill_packed(int64_t index, const Row& row) const {
  int64_t at = 0, number = 0;
  const bool apart = row.documents != nullptr && *options_.attention == PackedAttention::kDocument;
  for_each_part(kept_.empty() ? index : kept_[static_cast<size_t>(index)],
                [&](int64_t document, int64_t offset, int64_t count) {
                  copy(document, offset, count, at, row);
                  if (apart) std::fill_n(row.documents + at, count, number++);
                  at += count;
                  return true;
                });
}

int64_t TextSamples::tokens(int64_t sample) const {
  const auto [document, offset] = padded_[static_cast<size_t>(sample)];
  return std::min(length(document) - offset, options_.sequence_length);
}

void TextSamples::fill_padded(int64_t index, const Row& row) const {
  const auto [document, offset] = padded_[static_cast<size_t>(index)];
  const int64_t count = tokens(index);
  const int64_t at = options_.pads_left && !options_.overlap ? options_.sequence_length - count : 0;
  copy(document, offset, count, at, row);
  if (row.mask != nullptr) std::fill_n(row.mask + at, count, 1);
}

void TextSamples::copy(int64_t document, int64_t offset, int64_t count, int64_t at, const Row& row) const {
  const int64_t begin = cache_.begin(document) + offset;
  cache_.copy(begin, count, row.ids + at);
  std::copy_n(row.ids + at, count, row.labels + at);
  for (const IdRange& range : cache_.unlabelled_from(begin)) {
    const int64_t first = std::max(static_cast<int64_t>(range.begin) - begin, int64_t{0});
    if (first >= count) break;
    std::fill(row.labels + at + first,
              row.labels + at + std::min(static_cast<int64_t>(range.end) - begin, count), nn::kIgnored);
  }
  // The label of a first token would be predicted from the end of the document before.
  if (options_.packing == Packing::kDocuments && offset == 0) row.labels[at] = nn::kIgnored;
  // The sample before has predicted it.
  if (options_.overlap) row.labels[at] = nn::kIgnored;
  if (row.positions != nullptr) std::iota(row.positions + at, row.positions + at + count, int64_t{0});
}

}  // namespace weft::data
