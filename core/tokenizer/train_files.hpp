// Writes the files of a trained tokenizer.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::tokenizer {

// Writes tokenizer.json and tokenizer_config.json of a byte-level BPE, whose first special token begins and
// ends texts. Files with these names are replaced when both are written. Throws UNAVAILABLE where that is not
// possible, and RESOURCE_EXHAUSTED on a full disk.
void write_tokenizer_files(const std::string& folder, const std::vector<std::string>& vocabulary,
                           const std::vector<std::pair<std::string, std::string>>& merges,
                           const std::vector<std::string>& special_tokens);

}  // namespace weft::tokenizer
