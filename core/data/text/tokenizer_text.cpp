// Text with the tokenizer of a model folder.
#include <algorithm>

#include "base/text.hpp"
#include "text/encoded_text.hpp"

namespace weft::data {

namespace {

// Returns whether the text of a token is the end of a sentence.
bool is_sentence_end(std::string_view text) {
  constexpr std::string_view kEnds[] = {".", "!", "?", "。", "！", "？"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return trim(text).ends_with(end); });
}

// Returns how the tokenizer joins two sentences. Throws INVALID_ARGUMENT if there is no token between them.
JoinedPair joined_sentences(const Tokenizer& tokenizer) {
  JoinedPair joined = joined_pair(tokenizer);
  if (joined.between.ids.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: next-sentence prediction needs a tokenizer that joins two sequences with a token between them, "
         "such as [SEP], but this one gives [{}] for \"a\" and \"b\"; use another one (--tokenizer), or give "
         "its tokenizer.json a \"post_processor\" with a \"pair\"",
         tokenizer.name(), fmt::join(tokenizer.encode_pair("a", "b"), ", "));
  return joined;
}

PairFormat pair_format_of(const Tokenizer& tokenizer) {
  PairFormat format = {joined_sentences(tokenizer), {}};
  for (int64_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    format.sentence_ends.push_back(is_sentence_end(tokenizer.decode({id})));
  return format;
}

TextEncoder encoder_of(const Tokenizer& tokenizer) {
  using Role = Tokenizer::Role;
  TextEncoder encoder;
  encoder.encode = [tokenizer](std::string_view text) { return tokenizer.encode(text, false); };
  EnclosingIds around = enclosing_ids(tokenizer);
  encoder.before = std::move(around.before);
  encoder.closing = encoder.after = std::move(around.after);
  const std::optional<int64_t> end = tokenizer.id_of(Role::kEnd);
  if (end && (encoder.after.empty() || encoder.after.back() != *end)) encoder.after.push_back(*end);
  encoder.vocabulary_size = tokenizer.vocabulary_size();
  encoder.name = tokenizer.name();
  encoder.digest = tokenizer.digest();
  encoder.chat_template = tokenizer.chat_template();
  encoder.tool_template = tokenizer.chat_template("tool_use");
  constexpr std::pair<Role, const char*> kNames[] = {
      {Role::kBegin, "bos_token"},     {Role::kEnd, "eos_token"},     {Role::kUnknown, "unk_token"},
      {Role::kSeparator, "sep_token"}, {Role::kPadding, "pad_token"}, {Role::kClass, "cls_token"},
      {Role::kMask, "mask_token"}};
  for (const auto& [role, name] : kNames)
    if (const auto id = tokenizer.id_of(role))
      encoder.special_tokens.emplace_back(name, tokenizer.token_of(*id));
  encoder.padding = tokenizer.id_of(Role::kPadding).value_or(end.value_or(0));
  encoder.pads_left = tokenizer.pads_left();
  encoder.truncates_left = tokenizer.truncates_left();
  encoder.pair_format = [tokenizer] { return pair_format_of(tokenizer); };
  return encoder;
}

}  // namespace

std::shared_ptr<Dataset> open_text(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                                   const TextOptions& options) {
  return open_encoded_text(sources, encoder_of(tokenizer), options);
}

std::vector<int64_t> special_ids_of(const Tokenizer& tokenizer, bool pairs) {
  using Role = Tokenizer::Role;
  std::vector<int64_t> special = pairs ? joined_sentences(tokenizer).special_ids() : std::vector<int64_t>();
  for (const Role role :
       {Role::kBegin, Role::kEnd, Role::kSeparator, Role::kPadding, Role::kClass, Role::kMask})
    if (const std::optional<int64_t> id = tokenizer.id_of(role)) special.push_back(*id);
  return special;
}

std::shared_ptr<TextDocuments> open_documents(const std::vector<TextSource>& sources,
                                              const std::optional<Tokenizer>& tokenizer,
                                              const TextOptions& options) {
  return open_encoded_documents(sources, tokenizer ? encoder_of(*tokenizer) : byte_encoder(), options);
}

}  // namespace weft::data
