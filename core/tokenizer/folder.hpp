// The files of a tokenizer in a model folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::tokenizer {

struct FolderFiles {
  std::string folder;
  std::string path;                // of the file with the vocabulary
  std::vector<std::string> names;  // of all files that belong to the tokenizer
  // As tokenizer.json has it; made from vocab.json and merges.txt, vocab.txt or tokenizer.model, where there
  // is none.
  nlohmann::json tokenizer;
  // As tokenizer_config.json has it, with the legacy files special_tokens_map.json and added_tokens.json, and
  // defaults, merged into it.
  nlohmann::json config;
  std::string chat_template;
  std::string digest;  // of the files with the vocabulary
};

// Returns the path of the file with the vocabulary; empty if the folder has none.
std::string find_vocabulary(const std::string& folder);
// Throws as Tokenizer::open.
FolderFiles read_folder(const std::string& folder);

}  // namespace weft::tokenizer
