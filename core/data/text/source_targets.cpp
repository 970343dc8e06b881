#include "text/source_targets.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "loader/random.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

// Returns of each document the first one of its line, or of its element: the turns of a conversation.
std::vector<int64_t> firsts_of_lines(const TokenCache& cache) {
  std::vector<int64_t> firsts(static_cast<size_t>(cache.documents()));
  int64_t begin = 0;  // of the documents of a file
  const auto made = nlohmann::json::parse(cache.description());
  for (const auto& file : made.at("sources")) {
    const int64_t end = begin + file.at("documents").get<int64_t>();
    for (int64_t document = begin; document < end; ++document) {
      const bool goes_on = document > begin && cache.offset(document) == cache.offset(document - 1);
      const auto at = static_cast<size_t>(document);
      firsts[at] = goes_on ? firsts[at - 1] : document;
    }
    begin = end;
  }
  return firsts;
}

}  // namespace

SourceTargets::SourceTargets(TokenCache cache, std::string name, SampleOptions options,
                             const TextEncoder& encoder)
    : cache_(std::move(cache)),
      name_(std::move(name)),
      options_(options),
      begin_(static_cast<int64_t>(encoder.before.size())),
      source_end_(static_cast<int64_t>(encoder.closing.size())),
      target_end_(static_cast<int64_t>(encoder.after.size())),
      truncates_left_(encoder.truncates_left) {
  const int64_t least = std::max({source_end_, target_end_, int64_t{1}}) + (truncates_left_ ? begin_ : 0) + 1,
                length = options_.sequence_length;
  if (length < least)
    fail(WEFT_INVALID_ARGUMENT, "{}: sequence length is {}, must be at least {} (--sequence-length)", name_,
         length, least);
  const std::vector<int64_t> firsts = firsts_of_lines(cache_);
  for (int64_t document = 0; document < cache_.documents(); ++document) {
    const bool is_held = is_held_out(firsts[static_cast<size_t>(document)], options_.held_out, options_.seed);
    if (options_.part != Part::kAll && is_held != (options_.part == Part::kHeldOut)) {
      ++of_other_part_;
      continue;
    }
    const Pair pair = pair_of(document);
    const bool is_long = pair.target - pair.source > length || pair.end - pair.target > length;
    if (is_long) ++(options_.drop_long_documents ? too_long_ : cut_);
    if (!is_long || !options_.drop_long_documents) pairs_.push_back(pair);
  }
  if (pairs_.empty()) refuse_without_documents(cache_, name_, too_long_, options_);
}

SourceTargets::Pair SourceTargets::pair_of(int64_t document) const {
  const int64_t begin = cache_.begin(document), end = cache_.begin(document + 1);
  const auto ranges = cache_.unlabelled_from(begin);
  const bool has_source = !ranges.empty() && static_cast<int64_t>(ranges.front().begin) == begin;
  return has_source ? Pair{begin, static_cast<int64_t>(ranges.front().end), end} : Pair{begin, end, end};
}

Batch SourceTargets::get(const std::vector<int64_t>& indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t length = options_.sequence_length;
  const at::Tensor ids = at::full({count, length}, options_.padding, at::kLong);
  const at::Tensor labels = at::full({count, length}, nn::kIgnored, at::kLong);
  const at::Tensor mask = at::zeros({count, length}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    if (index < 0 || index >= size())
      fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name_, index, size());
    const auto [source, target, end] = pairs_[static_cast<size_t>(index)];
    const bool is_text = target == end;
    const auto row_of = [&](const at::Tensor& tensor) {
      return tensor.mutable_data_ptr<int64_t>() + i * length;
    };
    const int64_t read = copy(source, target, is_text ? target_end_ : source_end_, row_of(ids));
    if (options_.pads_left) std::rotate(row_of(ids), row_of(ids) + read, row_of(ids) + length);
    std::fill_n(row_of(mask) + (options_.pads_left ? length - read : 0), read, 1);
    copy(is_text ? source : target, end, target_end_, row_of(labels));
  }
  Batch batch;
  batch.set(nn::kInputIds, ids);
  batch.set(nn::kAttentionMask, mask);
  batch.set(nn::kLabels, labels);
  return batch;
}

int64_t SourceTargets::copy(int64_t begin, int64_t end, int64_t kept, int64_t* row) const {
  const int64_t count = end - begin, length = options_.sequence_length;
  if (count <= length) {
    cache_.copy(begin, count, row);
    return count;
  }
  // Those of the text itself that are left stand at its begin, or at its end.
  const int64_t front = truncates_left_ ? begin_ : length - kept;
  cache_.copy(begin, front, row);
  cache_.copy(end - (length - front), length - front, row + front);
  return length;
}

}  // namespace weft::data
