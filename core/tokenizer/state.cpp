#include "tokenizer/state.hpp"

#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/utf8.hpp"

namespace weft {

using namespace tokenizer;

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

}  // namespace

Tokenizer::State::State(FolderFiles read) : files(std::move(read)), source(files.path) {
  const JsonPart all(files.tokenizer, "the file", source);
  normalizer = make_normalizer(member(files.tokenizer, "normalizer"), source);
  pre_tokenizer = make_pre_tokenizer(member(files.tokenizer, "pre_tokenizer"), source);
  model = make_model(all.object("model"), source);
  decoder = make_decoder(member(files.tokenizer, "decoder"), source);
  add_tokens();
  added.close(normalizer.get());
  add_roles();
  add_post_processor();
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const bool is_bpe = JsonPart(all.object("model"), "\"model\"", source).text("type", "BPE") == "BPE";
  cleans_up = config.flag("clean_up_tokenization_spaces", false) &&
              (!is_bpe ||
               config.flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false));
  files.tokenizer = Json();  // its parts are read: the vocabulary need not be kept twice
}

// The flags of the configuration count where there is no tokenizer.json alone.
void Tokenizer::State::add_post_processor() {
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const bool has_flags = std::filesystem::path(source).filename() == "vocab.json";
  const bool begins = has_flags && config.flag("add_bos_token", false);
  const bool ends = has_flags && config.flag("add_eos_token", false);
  const Json& processor = member(files.tokenizer, "post_processor");
  if (begins || ends)
    post_processor = PostProcessor(begins ? roles[0] : std::nullopt, ends ? roles[1] : std::nullopt);
  else
    post_processor = PostProcessor(processor, source);
  files.digest = sha256_hex(files.digest + added.description() + processor.dump() + (begins ? "begin" : "") +
                            (ends ? "end" : ""));
}

void Tokenizer::State::add_tokens() {
  const TokenTable& known = model->tokens();
  const Json& own = member(files.tokenizer, "added_tokens");
  if (!own.is_null() && !own.is_array())
    fail(WEFT_DATA_LOSS, "{}: \"added_tokens\" is {}, must be a list", source, json_kind(own));
  for (const Json& token : own) added.add(read_added_token(token, false, source), known);
  const Json& decoder_of_config = member(files.config, "added_tokens_decoder");
  if (decoder_of_config.is_object())
    for (const auto& [id, token] : sorted_by_id(decoder_of_config, source))
      added.add(read_added_token(*token, false, source), known);
  for (const char* role : kRoles) {
    const Json& token = member(files.config, role);
    if (!token.is_null()) added.add(read_added_token(token, true, source), known);
  }
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    const Json& extra = member(files.config, key);
    if (!extra.is_array() && !extra.is_object()) continue;
    for (const Json& token : extra) added.add(read_added_token(token, true, source), known);
  }
}

void Tokenizer::State::add_roles() {
  const Json& padding = member(files.tokenizer, "padding");
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const auto id = [&](const std::string& token) {
    const auto found = added.tokens().find(token);
    return found ? found : model->tokens().find(token);
  };
  for (size_t i = 0; i < kRoles.size(); ++i) {
    const Json& token = member(files.config, kRoles[i]);
    if (!token.is_null()) roles[i] = id(read_added_token(token, true, source).content);
  }
  const JsonPart model_part(files.tokenizer.at("model"), "\"model\"", source);
  const Json* unknown = model_part.find("unk_token");
  constexpr auto kUnknownPlace = static_cast<size_t>(Role::kUnknown);
  if (!roles[kUnknownPlace] && unknown && unknown->is_string())
    roles[kUnknownPlace] = id(unknown->get<std::string>());
  std::string side = "right";
  if (padding.is_object()) {
    const JsonPart part(padding, "\"padding\"", source);
    auto& pad = roles[static_cast<size_t>(Role::kPadding)];
    if (!pad) pad = id(part.text("pad_token", ""));
    side = part.text("direction", "Right") == "Left" ? "left" : "right";
  }
  pads_left = config.text("padding_side", side) == "left";
}

// Appends the ids of text that has no added tokens.
void Tokenizer::State::encode_between(std::string text, bool first, std::vector<int64_t>& ids) const {
  Pieces pieces;
  pieces.text = std::move(text);
  pieces.list.push_back({0, pieces.text.size(), first});
  if (pre_tokenizer) pre_tokenizer->split(pieces);
  for (const Pieces::Piece& piece : pieces.list)
    if (piece.end > piece.begin) model->encode(pieces.at(piece), ids);
}

std::vector<int64_t> Tokenizer::State::encode(std::string_view given) const {
  const std::string repaired = is_utf8(given) ? std::string() : repaired_utf8(given);
  const std::string_view text = repaired.empty() ? given : repaired;
  std::vector<int64_t> ids;
  for (const AddedTokens::Part& part : added.split(text, AddedTokens::Text::kRaw)) {
    if (part.id) {
      ids.push_back(*part.id);
      continue;
    }
    std::string normal(text.substr(part.begin, part.end - part.begin));
    if (normalizer) normal = normalizer->normalize(std::move(normal));
    for (const AddedTokens::Part& inner : added.split(normal, AddedTokens::Text::kNormalized))
      if (inner.id)
        ids.push_back(*inner.id);
      else
        encode_between(normal.substr(inner.begin, inner.end - inner.begin),
                       part.begin == 0 && inner.begin == 0, ids);
  }
  return ids;
}

}  // namespace weft
