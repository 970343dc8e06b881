// A tokenizer of whole words, as that of BERT.
#pragma once

#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::test {

// Returns its tokenizer.json. The ids are 0 for [PAD], 1 for [UNK], 2 for [CLS], 3 for [SEP], and then those
// of the words, in lower case.
inline nlohmann::json word_tokenizer(const std::vector<std::string>& words) {
  using nlohmann::json;
  const auto special = [](const char* token, int type) -> json {
    return {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) -> json {
    return {{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const auto token = [](const char* name, int id) -> json {
    return {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  json ids;
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) ids[name] = ids.size();
  for (std::string word : words) {
    for (char& letter : word) letter = static_cast<char>(std::tolower(letter));
    ids[word] = ids.size();
  }
  return {
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", true},
        {"strip_accents", nullptr},
        {"lowercase", true}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)}},
        {"pair",
         {special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0), sequence("B", 1), special("[SEP]", 1)}},
        {"special_tokens", {{"[CLS]", token("[CLS]", 2)}, {"[SEP]", token("[SEP]", 3)}}}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", "[UNK]"},
        {"continuing_subword_prefix", "##"},
        {"max_input_chars_per_word", 100},
        {"vocab", ids}}}};
}

}  // namespace weft::test
