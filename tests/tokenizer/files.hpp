// Small files of tokenizers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "support/temporary_folder.hpp"
#include "weft/tokenizer.hpp"

namespace weft::test {

using Json = nlohmann::json;

// Returns a byte-pair tokenizer with the letters a to d, a space and "▁"; `ab` and `abc` are merged.
inline Json small_tokenizer() {
  return {{"added_tokens", Json::array()},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {" ", 4}, {"▁", 5}, {"ab", 6}, {"abc", 7}}},
            {"merges", {"a b", "ab c"}}}}};
}

inline Json added_token(const std::string& content, const Json& flags = Json::object()) {
  Json token = {{"content", content}, {"single_word", false}, {"lstrip", false},
                {"rstrip", false},    {"normalized", false},  {"special", true}};
  token.update(flags);
  return token;
}

inline Tokenizer open_tokenizer(const Json& description, const Json& config = Json::object()) {
  const TemporaryFolder folder;
  folder.file("tokenizer.json", description.dump());
  if (!config.empty()) folder.file("tokenizer_config.json", config.dump());
  return Tokenizer::open(folder.path());
}

}  // namespace weft::test
