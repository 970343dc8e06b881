// Random texts and damaged files for tokenizers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace weft::test {

struct FuzzResult {
  int64_t texts = 0;
  int64_t opened = 0, refused = 0;  // damaged files
  std::string failure;              // empty: none
};
// Opens damaged files and encodes and decodes random bytes for this long. A fault is: an exception that is no
// Error of the kinds that Tokenizer promises, text that streams otherwise than it decodes, and for bytes that
// are UTF-8, text of a byte-level tokenizer that does not come back.
FuzzResult fuzz_tokenizers(std::chrono::milliseconds time, uint64_t seed, const std::string& folder);

}  // namespace weft::test
