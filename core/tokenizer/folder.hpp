// The files of a tokenizer in a model folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tokenizer/implementation.hpp"

namespace weft::tokenizer {

struct FolderFiles {
  std::string path;  // of the file with the vocabulary
  Files files;       // all that belong to the tokenizer
  // As tokenizer.json has it; made from vocab.json and merges.txt, vocab.txt or tokenizer.model, where there
  // is none.
  nlohmann::json tokenizer;
  // As tokenizer_config.json has it, with the legacy files special_tokens_map.json and added_tokens.json, and
  // defaults, merged into it.
  nlohmann::json config;
  ChatTemplates chat_templates;
  std::string digest;  // of the files with the vocabulary
};

// Returns the path of the file with the vocabulary; empty if the folder has none.
std::string find_vocabulary(const std::string& folder);
// Returns tokenizer_config.json with the legacy files merged into it; an empty object if there are none.
// Throws DATA_LOSS for damaged files.
nlohmann::json read_tokenizer_config(const std::string& folder);
// Returns the chat templates of a folder, as transformers has them: those of chat_template.jinja, which is
// "default", and of additional_chat_templates/NAME.jinja. "default" may also be in tokenizer_config.json, and
// so may all of them where there are no such files.
ChatTemplates read_chat_templates(const std::string& folder, const nlohmann::json& config);
// The files of a folder that belong to its tokenizer beside the vocabulary.
inline constexpr const char* kSettings[] = {"tokenizer_config.json", "special_tokens_map.json",
                                            "added_tokens.json", "chat_template.jinja"};
inline constexpr const char* kMoreTemplates = "additional_chat_templates";  // the folder of further templates
// Returns true for these names, for the folder of further templates, and for files with a vocabulary.
bool is_file_of_tokenizer(std::string_view name);
// Reads the settings and further templates that are there, by their paths in the folder.
Files read_settings(const std::string& folder);
// Throws as Tokenizer::open.
FolderFiles read_folder(const std::string& folder);

}  // namespace weft::tokenizer
