#include "tokenizer/file_tokenizer.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/json.hpp"
#include "base/search.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// In the order of Role.
constexpr std::array<const char*, 7> kRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

const Json& member(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

// Returns the objects of "added_tokens_decoder" by their ids.
std::vector<std::pair<int64_t, const Json*>> sorted_by_id(const Json& decoder, const std::string& source) {
  std::vector<std::pair<int64_t, const Json*>> sorted;
  for (const auto& [key, value] : decoder.items()) {
    const bool is_number = !key.empty() && key.size() < 10 &&
                           std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number)
      fail(WEFT_DATA_LOSS, "{}: \"added_tokens_decoder\" has the key \"{}\", must be an id", source,
           printable(key, 40));
    sorted.emplace_back(std::stoll(key), &value);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// A rule takes memory and time even for an empty text.
void require_few_rules(const Json& part, const char* key, const std::string& source) {
  constexpr size_t kMost = 256;
  const std::function<size_t(const Json&)> count = [&](const Json& value) {
    size_t rules = value.is_object() && value.contains("type") ? 1 : 0;
    if (value.is_structured())
      for (const Json& item : value) rules += count(item);
    return rules;
  };
  if (const size_t rules = count(part); rules > kMost)
    fail(WEFT_DATA_LOSS, "{}: \"{}\" has {} rules, at most {} are possible", source, key, rules, kMost);
}

// Joins punctuation with the word in front of it, as transformers does for English ("clean_up_tokenization").
std::string cleaned(std::string text) {
  constexpr std::pair<const char*, const char*> kChanges[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kChanges) replace_all(text, from, to);
  return text;
}

}  // namespace

FileTokenizer::FileTokenizer(FolderFiles files) {
  facts_.source = files.path;
  facts_.digest = std::move(files.digest);
  facts_.chat_templates = std::move(files.chat_templates);
  const std::string& source = facts_.source;
  const JsonPart all(files.tokenizer, "the file", source);
  rule_of_added_ = source + ": \"added_tokens\"";
  for (const char* key : {"normalizer", "pre_tokenizer", "decoder"})
    require_few_rules(member(files.tokenizer, key), key, source);
  normalizer_ = make_normalizer(member(files.tokenizer, "normalizer"), source);
  pre_tokenizer_ = make_pre_tokenizer(member(files.tokenizer, "pre_tokenizer"), source);
  model_ = make_model(all.object("model"), source);
  decoder_ = make_decoder(member(files.tokenizer, "decoder"), source);
  add_tokens(files);
  added_.close(normalizer_.get());
  add_roles(files);
  add_post_processor(files);
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const bool is_bpe = JsonPart(all.object("model"), "\"model\"", source).text("type", "BPE") == "BPE";
  facts_.cleans_up =
      config.flag("clean_up_tokenization_spaces", false) &&
      (!is_bpe ||
       config.flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false));
  facts_.files = std::move(files.files);
}

// The flags of the configuration count where there is no tokenizer.json alone.
void FileTokenizer::add_post_processor(const FolderFiles& files) {
  const std::string& source = facts_.source;
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const bool has_flags = std::filesystem::path(source).filename() == "vocab.json";
  const bool begins = has_flags && config.flag("add_bos_token", false);
  const bool ends = has_flags && config.flag("add_eos_token", false);
  const Json& processor = member(files.tokenizer, "post_processor");
  if (begins || ends)
    post_processor_ =
        PostProcessor(begins ? facts_.roles[0] : std::nullopt, ends ? facts_.roles[1] : std::nullopt);
  else
    post_processor_ = PostProcessor(processor, source);
  facts_.digest = sha256_hex(facts_.digest + added_.description() + processor.dump() +
                             (begins ? "begin" : "") + (ends ? "end" : ""));
}

void FileTokenizer::add_tokens(const FolderFiles& files) {
  const std::string& source = facts_.source;
  const TokenTable& known = model_->tokens();
  const Json& own = member(files.tokenizer, "added_tokens");
  if (!own.is_null() && !own.is_array())
    fail(WEFT_DATA_LOSS, "{}: \"added_tokens\" is {}, must be a list", source, json_kind(own));
  for (const Json& token : own) added_.add(read_added_token(token, false, source), known);
  const Json& decoder_of_config = member(files.config, "added_tokens_decoder");
  if (decoder_of_config.is_object())
    for (const auto& [id, token] : sorted_by_id(decoder_of_config, source))
      added_.add(read_added_token(*token, false, source), known);
  for (const char* role : kRoles) {
    const Json& token = member(files.config, role);
    if (!token.is_null()) added_.add(read_added_token(token, true, source), known);
  }
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json& extra = member(files.config, key);
    if (!extra.is_array() && !extra.is_object()) continue;
    for (const Json& token : extra) added_.add(read_added_token(token, true, source), known);
  }
}

void FileTokenizer::add_roles(const FolderFiles& files) {
  const std::string& source = facts_.source;
  const Json& padding = member(files.tokenizer, "padding");
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const auto id = [&](const std::string& token) {
    const auto found = added_.tokens().find(token);
    return found ? found : model_->tokens().find(token);
  };
  for (size_t i = 0; i < kRoles.size(); ++i) {
    const Json& token = member(files.config, kRoles[i]);
    if (!token.is_null()) facts_.roles[i] = id(read_added_token(token, true, source).content);
  }
  const JsonPart model_part(files.tokenizer.at("model"), "\"model\"", source);
  const Json* unknown = model_part.find("unk_token");
  constexpr auto kUnknownPlace = static_cast<size_t>(Tokenizer::Role::kUnknown);
  if (!facts_.roles[kUnknownPlace] && unknown && unknown->is_string())
    facts_.roles[kUnknownPlace] = id(unknown->get<std::string>());
  std::string side = "right";
  if (padding.is_object()) {
    const JsonPart part(padding, "\"padding\"", source);
    auto& pad = facts_.roles[static_cast<size_t>(Tokenizer::Role::kPadding)];
    if (!pad) pad = id(part.text("pad_token", ""));
    side = part.text("direction", "Right") == "Left" ? "left" : "right";
  }
  facts_.pads_left = config.text("padding_side", side) == "left";
  const Json& truncation = member(files.tokenizer, "truncation");
  const bool is_left = truncation.is_object() &&
                       JsonPart(truncation, "\"truncation\"", source).text("direction", "Right") == "Left";
  facts_.truncates_left = config.text("truncation_side", is_left ? "left" : "right") == "left";
}

// Appends the ids of text that has no added tokens.
void FileTokenizer::encode_between(std::string text, bool first, std::vector<int64_t>& ids,
                                   Limits& limits) const {
  Pieces pieces;
  pieces.text = std::move(text);
  pieces.list.push_back({0, pieces.text.size(), first});
  if (pre_tokenizer_) pre_tokenizer_->split(pieces, limits);
  for (const Pieces::Piece& piece : pieces.list)
    if (piece.end > piece.begin) model_->encode(pieces.at(piece), ids, limits);
  limits.use_room(pieces.text.size());
}

std::vector<int64_t> FileTokenizer::encode_plain(std::string_view given) const {
  const std::string repaired = is_utf8(given) ? std::string() : repaired_utf8(given);
  const std::string_view text = repaired.empty() ? given : repaired;
  std::vector<int64_t> ids;
  Limits limits(text.size());
  const Work finding(limits, rule_of_added_);
  for (const AddedTokens::Part& part : added_.split(text, AddedTokens::Text::kRaw, finding)) {
    if (part.id) {
      ids.push_back(*part.id);
      continue;
    }
    std::string normal(text.substr(part.begin, part.end - part.begin));
    if (normalizer_) {
      normal = normalizer_->normalize(std::move(normal), limits);
      limits.use_room(normal.size());
    }
    for (const AddedTokens::Part& inner : added_.split(normal, AddedTokens::Text::kNormalized, finding))
      if (inner.id)
        ids.push_back(*inner.id);
      else
        encode_between(normal.substr(inner.begin, inner.end - inner.begin),
                       part.begin == 0 && inner.begin == 0, ids, limits);
  }
  return ids;
}

std::vector<int64_t> FileTokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return post_processor_.join({encode_plain(text)}, add_special_tokens, nullptr);
}

std::vector<int64_t> FileTokenizer::encode_pair(std::string_view first, std::string_view second,
                                                std::vector<int64_t>* types) const {
  return post_processor_.join({encode_plain(first), encode_plain(second)}, true, types);
}

std::string FileTokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  constexpr size_t kMostDecoded = size_t{64} << 20, kMostOfToken = 1024;  // bytes
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  size_t bytes = 0;
  for (const int64_t id : ids) {
    if (!has(id)) continue;
    const std::string& token = spelling(id);
    if (skip_special_tokens && added_.is_special(token)) continue;
    bytes += token.size();
    if (const size_t most = kMostDecoded + kMostOfToken * ids.size(); bytes > most)
      fail(WEFT_RESOURCE_EXHAUSTED, "{}: the tokens of {} ids have more than {} bytes", facts_.source,
           ids.size(), most);
    tokens.push_back(token);
  }
  Limits limits(bytes);
  if (decoder_) decoder_->decode(tokens, limits);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !decoder_) text += ' ';
    text += tokens[i];
  }
  return facts_.cleans_up ? cleaned(std::move(text)) : text;
}

int64_t FileTokenizer::vocabulary_size() const {
  return std::max(model_->tokens().size(), added_.tokens().size());
}

std::optional<int64_t> FileTokenizer::id_of(std::string_view token) const {
  const auto added = added_.tokens().find(token);
  return added ? added : model_->tokens().find(token);
}

}  // namespace weft::tokenizer
