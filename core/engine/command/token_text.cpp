#include "command/token_text.hpp"

#include <filesystem>

#include "base/text.hpp"

namespace weft::command {

namespace {

bool has_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json"})
    if (std::filesystem::exists(folder / name)) return true;
  return false;
}

}  // namespace

TokenText::TokenText(const std::string& folder, int64_t vocabulary)
    : bytes_(vocabulary == 256 && !has_tokenizer(folder)) {}

std::vector<int64_t> TokenText::ids_of(const std::string& text, const std::string& source) const {
  if (!bytes_)
    fail(WEFT_INVALID_ARGUMENT,
         "{} works for models whose tokens are bytes (vocabulary of 256, no tokenizer in the folder); "
         "give token ids with --prompt-ids, or \"prompt_ids\" in --prompts",
         source);
  std::vector<int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string TokenText::text_of(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const int64_t id : ids) text += static_cast<char>(id);
  return text;
}

}  // namespace weft::command
