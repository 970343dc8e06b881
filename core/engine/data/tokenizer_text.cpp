// Text with the tokenizer of a model folder.
#include <algorithm>

#include "base/text.hpp"
#include "data/encoded_text.hpp"

namespace weft::data {

namespace {

// Sets the ids that the tokenizer puts around a sequence: those around the ids of a letter.
void set_enclosing_ids(const Tokenizer& tokenizer, TextEncoder& encoder) {
  const TextEncoder::Ids inner = tokenizer.encode("a", false), whole = tokenizer.encode("a", true);
  const auto found = std::search(whole.begin(), whole.end(), inner.begin(), inner.end());
  if (found == whole.end() && !whole.empty())
    fail(WEFT_UNIMPLEMENTED,
         "{}: the ids of a text with special tokens do not contain those without; Weft cannot tokenize "
         "documents with it",
         tokenizer.name());
  encoder.before.assign(whole.begin(), found);
  encoder.after.assign(found + static_cast<std::ptrdiff_t>(inner.size()), whole.end());
}

using Ids = TextEncoder::Ids;

PairFormat::Special special_part(const Ids& ids, const Ids& types, Ids::const_iterator begin,
                                 Ids::const_iterator end) {
  const auto first = types.begin() + (begin - ids.begin());
  return {{begin, end}, {first, first + (end - begin)}};
}

// Returns whether the text of a token is the end of a sentence.
bool is_sentence_end(std::string_view text) {
  constexpr std::string_view kEnds[] = {".", "!", "?", "。", "！", "？"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return trim(text).ends_with(end); });
}

// Returns what the tokenizer puts around and between two letters.
PairFormat joined_pair(const Tokenizer& tokenizer) {
  Ids types;
  const Ids pair = tokenizer.encode_pair("a", "b", &types), a = tokenizer.encode("a", false),
            b = tokenizer.encode("b", false);
  const auto first = std::search(pair.begin(), pair.end(), a.begin(), a.end()),
             first_end = first == pair.end() ? first : first + std::ssize(a),
             second = std::search(first_end, pair.end(), b.begin(), b.end());
  if (second == pair.end() || second == first_end)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: next-sentence prediction needs a tokenizer that joins two sequences with a token between them, "
         "such as [SEP], but this one gives {} for \"a\" and \"b\"; use another one (--tokenizer), or give "
         "its tokenizer.json a \"post_processor\" with a \"pair\"",
         tokenizer.name(), fmt::format("[{}]", fmt::join(pair, ", ")));
  PairFormat format;
  format.before = special_part(pair, types, pair.begin(), first);
  format.between = special_part(pair, types, first_end, second);
  format.after = special_part(pair, types, second + std::ssize(b), pair.end());
  format.first_type = types[static_cast<size_t>(first - pair.begin())];
  format.second_type = types[static_cast<size_t>(second - pair.begin())];
  return format;
}

PairFormat pair_format_of(const Tokenizer& tokenizer) {
  PairFormat format = joined_pair(tokenizer);
  format.sentence_ends.resize(static_cast<size_t>(tokenizer.vocabulary_size()));
  for (int64_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    format.sentence_ends[static_cast<size_t>(id)] = is_sentence_end(tokenizer.decode({id}));
  return format;
}

TextEncoder encoder_of(const Tokenizer& tokenizer) {
  using Role = Tokenizer::Role;
  TextEncoder encoder;
  encoder.encode = [tokenizer](std::string_view text) { return tokenizer.encode(text, false); };
  set_enclosing_ids(tokenizer, encoder);
  const std::optional<int64_t> end = tokenizer.id_of(Role::kEnd);
  if (end && (encoder.after.empty() || encoder.after.back() != *end)) encoder.after.push_back(*end);
  encoder.vocabulary_size = tokenizer.vocabulary_size();
  encoder.name = tokenizer.name();
  encoder.digest = tokenizer.digest();
  encoder.chat_template = tokenizer.chat_template();
  if (const auto begin = tokenizer.id_of(Role::kBegin)) encoder.begin_token = tokenizer.token_of(*begin);
  encoder.padding = tokenizer.id_of(Role::kPadding).value_or(end.value_or(0));
  encoder.pads_left = tokenizer.pads_left();
  encoder.pair_format = [tokenizer] { return pair_format_of(tokenizer); };
  return encoder;
}

}  // namespace

std::shared_ptr<Dataset> open_text(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                                   const TextOptions& options) {
  return open_encoded_text(sources, encoder_of(tokenizer), options);
}

std::vector<int64_t> special_ids_of_pairs(const Tokenizer& tokenizer) {
  const PairFormat format = joined_pair(tokenizer);
  std::vector<int64_t> special;
  for (const PairFormat::Special* part : {&format.before, &format.between, &format.after})
    special.insert(special.end(), part->ids.begin(), part->ids.end());
  return special;
}

std::shared_ptr<TextDocuments> open_documents(const std::vector<TextSource>& sources,
                                              const std::optional<Tokenizer>& tokenizer,
                                              const TextOptions& options) {
  return open_encoded_documents(sources, tokenizer ? encoder_of(*tokenizer) : byte_encoder(), options);
}

}  // namespace weft::data
