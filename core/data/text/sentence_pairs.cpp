// Next-sentence prediction (Devlin et al., pre-training of deep bidirectional transformers, arXiv:1810.04805,
// section 3.1 and appendix A.2).
//
// What a pair looks like must not tell whether its second sentence follows. So a sentence from elsewhere
// begins where the second sentence of its own document could begin, and has as many tokens as the one that it
// replaces, as far as its document has them.
#include "text/sentence_pairs.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/text.hpp"
#include "loader/random.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

constexpr double kFollows = 0.5;

// Returns the key of the random numbers of pairs. They are others than those that mask the tokens of the same
// sample, because otherwise the masks would tell the label.
int64_t pair_key(int64_t seed) {
  constexpr uint64_t kPairs = 0x7061697273;
  return static_cast<int64_t>(mixed(static_cast<uint64_t>(seed) ^ kPairs));
}

int64_t draw_between(int64_t first, int64_t last, SampleRandom& random) {
  return first + static_cast<int64_t>(draw_below(static_cast<uint64_t>(last - first + 1), random));
}

}  // namespace

SentencePairs::SentencePairs(TokenCache cache, std::string name, const SampleOptions& options,
                             const TextEncoder& encoder, PairFormat format, std::string labels)
    : cache_(std::move(cache)),
      name_(std::move(name)),
      labels_(std::move(labels)),
      options_(options),
      format_(std::move(format)),
      chosen_(choose_documents(cache_, name_, options_)),
      room_(checked_room()) {
  find_texts(encoder);
  if (texts_.size() < 2) refuse_single_document();
  cut_stretches();
  if (stretches_.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: none of its {} documents has the two tokens that a pair of sentences needs; give longer ones",
         name_, documents());
}

int64_t SentencePairs::checked_room() const {
  const int64_t special = format_.joined.added();
  if (options_.sequence_length >= special + 2) return options_.sequence_length - special;
  fail(
      WEFT_INVALID_ARGUMENT,
      "{}: sequence length is {}, must be at least {}, because a pair of sentences has {} special tokens and "
      "at least one token of each sentence (--sequence-length)",
      name_, options_.sequence_length, special + 2, special);
}

void SentencePairs::find_texts(const TextEncoder& encoder) {
  TextEncoder::Ids ids;
  const auto has = [&](int64_t begin, const TextEncoder::Ids& expected) {
    ids.resize(expected.size());
    cache_.copy(begin, static_cast<int64_t>(ids.size()), ids.data());
    return ids == expected;
  };
  const auto before = static_cast<int64_t>(encoder.before.size()),
             after = static_cast<int64_t>(encoder.after.size());
  totals_ = {0};
  for (const int64_t document : chosen_.documents) {
    Range text = {cache_.begin(document), cache_.begin(document + 1)};
    // A chat has the ids of its template instead.
    if (text.size() >= before && has(text.begin, encoder.before)) text.begin += before;
    if (text.size() >= after && has(text.end - after, encoder.after)) text.end -= after;
    if (text.size() == 0) continue;
    texts_.push_back(text);
    totals_.push_back(totals_.back() + text.size());
  }
}

void SentencePairs::cut_stretches() {
  for (size_t text = 0; text < texts_.size(); ++text)
    for (int64_t begin = texts_[text].begin; begin + 2 <= texts_[text].end; begin += room_)
      stretches_.push_back({text, begin});
}

void SentencePairs::refuse_single_document() const {
  const char* const part = options_.part == Part::kAll       ? ""
                           : options_.part == Part::kHeldOut ? " in the held-out part"
                                                             : " in the training part";
  fail(WEFT_INVALID_ARGUMENT,
       "{}: {} with text{}, but next-sentence prediction takes the second sentence of half of the "
       "pairs from another document; a file of text is one document: give JSON lines, a folder or several "
       "files in one pattern",
       name_, texts_.empty() ? "no document" : "1 document", part);
}

std::string SentencePairs::objective() const {
  return fmt::format("next_sentence with seed {}", options_.seed);
}

Batch SentencePairs::get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t length = options_.sequence_length;
  const at::Tensor ids = at::full({count, length}, options_.padding, at::kLong),
                   types = at::zeros({count, length}, at::kLong),
                   mask = at::zeros({count, length}, at::kLong), labels = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = indices[static_cast<size_t>(i)];
    if (index < 0 || index >= size())
      fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name_, index, size());
    const Pair pair = draw(index, epoch);
    labels.mutable_data_ptr<int64_t>()[i] = pair.follows ? 0 : 1;
    fill(pair, {ids.mutable_data_ptr<int64_t>() + i * length, types.mutable_data_ptr<int64_t>() + i * length,
                mask.mutable_data_ptr<int64_t>() + i * length});
  }
  Batch batch;
  batch.set(nn::kInputIds, ids);
  batch.set(nn::kTokenTypes, types);
  batch.set(nn::kAttentionMask, mask);
  batch.set(labels_, labels);
  return batch;
}

SentencePairs::Pair SentencePairs::draw(int64_t sample, int64_t epoch) const {
  SampleRandom random(pair_key(options_.seed), epoch, sample);
  const auto [text, begin] = stretches_[static_cast<size_t>(sample)];
  const int64_t end = std::min(begin + room_, texts_[text].end);
  const std::optional<int64_t> sentence = draw_sentence(begin + 1, end - 1, random);
  const int64_t cut = sentence ? *sentence : draw_between(begin + 1, end - 1, random);
  if (random.unit() < kFollows) return {{begin, cut}, {cut, end}, true};
  return {{begin, cut}, draw_elsewhere(text, end - cut, random), false};
}

SentencePairs::Range SentencePairs::draw_elsewhere(size_t text, int64_t size, SampleRandom& random) const {
  // One of the tokens of all other texts, each as likely.
  const int64_t others = totals_.back() - texts_[text].size();
  auto drawn = static_cast<int64_t>(draw_below(static_cast<uint64_t>(others), random));
  if (drawn >= totals_[text]) drawn += texts_[text].size();
  const auto found = std::upper_bound(totals_.begin(), totals_.end(), drawn) - 1;
  const Range other = texts_[static_cast<size_t>(found - totals_.begin())];
  if (other.size() == 1) return other;
  const int64_t token = other.begin + drawn - *found;
  // Sentences within a stretch around it; never the first one of the text, which follows none.
  const int64_t first = std::clamp(token - room_ / 2, other.begin + 1, other.end - 1),
                last = std::clamp(token + room_ / 2, other.begin + 1, other.end - 1),
                fits = std::min(last, other.end - size);
  std::optional<int64_t> begin = draw_sentence(first, fits, random);
  if (!begin) begin = draw_sentence(first, last, random);
  if (!begin) begin = draw_between(first, std::max(first, fits), random);
  return {*begin, std::min(*begin + size, other.end)};
}

std::optional<int64_t> SentencePairs::draw_sentence(int64_t first, int64_t last, SampleRandom& random) const {
  if (last < first) return std::nullopt;
  TextEncoder::Ids ids(static_cast<size_t>(last - first + 1));  // those before each position
  cache_.copy(first - 1, last - first + 1, ids.data());
  std::vector<int64_t> found;
  for (size_t i = 0; i < ids.size(); ++i)
    if (format_.ends_sentence(ids[i])) found.push_back(first + static_cast<int64_t>(i));
  if (found.empty()) return std::nullopt;
  return found[draw_below(found.size(), random)];
}

void SentencePairs::fill(const Pair& pair, Row row) const {
  const auto skip = [&](int64_t count) {
    row.ids += count;
    row.types += count;
    row.mask += count;
  };
  const auto add = [&](int64_t count, int64_t type) {
    std::fill_n(row.types, count, type);
    std::fill_n(row.mask, count, 1);
    skip(count);
  };
  const auto add_special = [&](const JoinedPair::Added& special) {
    for (size_t i = 0; i < special.ids.size(); ++i) {
      *row.ids = special.ids[i];
      add(1, special.types[i]);
    }
  };
  const auto add_sentence = [&](const Range& range, int64_t type) {
    cache_.copy(range.begin, range.size(), row.ids);
    add(range.size(), type);
  };
  if (options_.pads_left) skip(room_ - pair.first.size() - pair.second.size());
  add_special(format_.joined.before);
  add_sentence(pair.first, format_.joined.first_type);
  add_special(format_.joined.between);
  add_sentence(pair.second, format_.joined.second_type);
  add_special(format_.joined.after);
}

}  // namespace weft::data
