#include "weft/tokenizer.hpp"

#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/state.hpp"

namespace weft {

using namespace tokenizer;

namespace {

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
