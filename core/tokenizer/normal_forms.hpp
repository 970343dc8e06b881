// Normal forms of Unicode (version 9.0, as Hugging Face's tokenizers have them).
#pragma once

#include <string>
#include <string_view>

namespace weft::tokenizer {

enum class NormalForm { kC, kD, kKC, kKD };

// Returns `text`, which is valid UTF-8, in a normal form (Unicode Standard Annex 15).
std::string normalized(std::string_view text, NormalForm form);

}  // namespace weft::tokenizer
