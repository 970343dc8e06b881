#include "weft/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/folder.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/post_processor.hpp"
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

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
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

struct Tokenizer::State {
  explicit State(FolderFiles read);
  void add_tokens();
  void add_roles();
  std::vector<int64_t> encode(std::string_view text) const;
  void encode_between(std::string text, bool first, std::vector<int64_t>& ids) const;
  const std::string& spelling(int64_t id) const {
    return added.tokens().has(id) ? added.tokens().spelling(id) : model->tokens().spelling(id);
  }
  bool has(int64_t id) const { return added.tokens().has(id) || model->tokens().has(id); }

  FolderFiles files;
  std::string source;  // the path of the vocabulary
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<Decoder> decoder;
  AddedTokens added;
  PostProcessor post_processor;
  std::array<std::optional<int64_t>, kRoles.size()> roles;
  bool cleans_up = false, pads_left = false;
};

Tokenizer::State::State(FolderFiles read) : files(std::move(read)), source(files.path) {
  const JsonPart all(files.tokenizer, "the file", source);
  normalizer = make_normalizer(member(files.tokenizer, "normalizer"), source);
  pre_tokenizer = make_pre_tokenizer(member(files.tokenizer, "pre_tokenizer"), source);
  model = make_model(all.object("model"), source);
  decoder = make_decoder(member(files.tokenizer, "decoder"), source);
  add_tokens();
  added.close(normalizer.get());
  add_roles();
  const JsonPart config(files.config, "tokenizer_config.json", source);
  const Json& processor = member(files.tokenizer, "post_processor");
  const bool begins = config.flag("add_bos_token", false), ends = config.flag("add_eos_token", false);
  if (std::filesystem::path(source).filename() == "vocab.json" && (begins || ends))
    post_processor = PostProcessor(begins ? roles[0] : std::nullopt, ends ? roles[1] : std::nullopt);
  else
    post_processor = PostProcessor(processor, source);
  const bool is_bpe = JsonPart(all.object("model"), "\"model\"", source).text("type", "BPE") == "BPE";
  cleans_up = config.flag("clean_up_tokenization_spaces", false) &&
              (!is_bpe ||
               config.flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", false));
  Sha256 digest;
  const std::string facts =
      files.digest + added.description() + processor.dump() + (begins ? "begin" : "") + (ends ? "end" : "");
  digest.update(facts.data(), facts.size());
  files.digest = digest.finish();
  files.tokenizer = Json();  // its parts are read: the vocabulary need not be kept twice
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

Tokenizer Tokenizer::open(const std::string& folder) {
  Tokenizer opened;
  try {
    opened.state_ = std::make_shared<const State>(read_folder(folder));
  } catch (const Json::exception& error) {
    fail(WEFT_DATA_LOSS, "{}: {}", find_vocabulary(folder), text_of(error));
  }
  return opened;
}

bool Tokenizer::is_in(const std::string& folder) {
  return !find_vocabulary(folder).empty();
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return state_->post_processor.join({state_->encode(text)}, add_special_tokens, nullptr);
}

std::vector<int64_t> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                            std::vector<int64_t>* types) const {
  return state_->post_processor.join({state_->encode(first), state_->encode(second)}, true, types);
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const {
  const State& state = *state_;
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int64_t id : ids) {
    if (!state.has(id)) continue;
    const std::string& token = state.spelling(id);
    if (!skip_special_tokens || !state.added.is_special(token)) tokens.push_back(token);
  }
  if (state.decoder) state.decoder->decode(tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !state.decoder) text += ' ';
    text += tokens[i];
  }
  return state.cleans_up ? cleaned(std::move(text)) : text;
}

int64_t Tokenizer::vocabulary_size() const {
  return std::max(state_->model->tokens().size(), state_->added.tokens().size());
}

std::optional<int64_t> Tokenizer::id_of(std::string_view token) const {
  const auto added = state_->added.tokens().find(token);
  return added ? added : state_->model->tokens().find(token);
}

std::string Tokenizer::token_of(int64_t id) const {
  return state_->spelling(id);
}

std::optional<int64_t> Tokenizer::id_of(Role role) const {
  return state_->roles.at(static_cast<size_t>(role));
}

bool Tokenizer::pads_left() const {
  return state_->pads_left;
}
std::string Tokenizer::name() const {
  return state_->source;
}
std::string Tokenizer::digest() const {
  return state_->files.digest;
}
std::string Tokenizer::chat_template() const {
  return state_->files.chat_template;
}

void Tokenizer::save(const std::string& folder) const {
  namespace fs = std::filesystem;
  for (const std::string& name : state_->files.names) {
    const fs::path from = fs::path(state_->files.folder) / name, to = fs::path(folder) / name;
    std::error_code error;
    if (fs::equivalent(from, to, error)) continue;
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
    if (error) fail(WEFT_DATA_LOSS, "cannot copy {} to {}: {}", from.string(), to.string(), error.message());
  }
}

}  // namespace weft
