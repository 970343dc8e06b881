#include "command/token_text.hpp"

#include <filesystem>

#include "base/text.hpp"

namespace weft::command {

namespace {

bool has_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer_config.json", "tokenizer.model", "vocab.json"})
    if (std::filesystem::exists(folder / name)) return true;
  return Tokenizer::is_in(folder.string());
}

}  // namespace

TokenText::TokenText(const std::string& folder, int64_t vocabulary)
    : bytes_(vocabulary == 256 && !has_tokenizer(folder)) {
  if (!Tokenizer::is_in(folder)) return;
  try {
    tokenizer_ = Tokenizer::open(folder);
  } catch (const Error& error) {
    refuse_ = [error] { throw error; };
  }
}

void TokenText::require(const std::string& source, const std::string& flag_of_ids) const {
  if (works()) return;
  if (refuse_) refuse_();
  fail(WEFT_INVALID_ARGUMENT,
       "{} needs a tokenizer in the model's folder (tokenizer.json, vocab.json with merges.txt, or "
       "vocab.txt) or a model whose tokens are bytes (vocabulary of 256); give token ids with {}",
       source, flag_of_ids);
}

std::vector<int64_t> TokenText::ids_of(const std::string& text, const std::string& source) const {
  require(source, "--prompt-ids, or \"prompt_ids\" in --prompts");
  if (tokenizer_) return tokenizer_->encode(text);
  std::vector<int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string TokenText::text_of(const std::vector<int64_t>& ids) const {
  if (tokenizer_) return tokenizer_->decode(ids);
  std::string text;
  for (const int64_t id : ids) text += static_cast<char>(id);
  return text;
}

TokenText::Stream::Stream(const TokenText& text) {
  if (text.tokenizer_) decoder_.emplace(*text.tokenizer_);
}

std::string TokenText::Stream::add(int64_t id) {
  return decoder_ ? decoder_->add(id) : std::string(1, static_cast<char>(id));
}

std::string TokenText::Stream::end() {
  return decoder_ ? decoder_->end() : std::string();
}

}  // namespace weft::command
