// Writes the files of a trained tokenizer.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::tokenizer {

// Writes tokenizer.json and tokenizer_config.json of a byte-level BPE. The first special token begins and
// ends texts. Throws DATA_LOSS where a file cannot be written.
void write_tokenizer_files(const std::string& folder, const std::vector<std::string>& vocabulary,
                           const std::vector<std::pair<std::string, std::string>>& merges,
                           const std::vector<std::string>& special_tokens);

}  // namespace weft::tokenizer
