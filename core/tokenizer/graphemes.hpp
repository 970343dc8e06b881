// Characters as people see them.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft::tokenizer {

// Returns where the grapheme cluster that begins at `begin` of a text ends (Unicode Standard Annex 29,
// extended clusters, without rule GB9c: conjuncts of Indic scripts are not joined). `begin` is in front of
// the end of the text and is itself a boundary.
size_t end_of_grapheme(std::string_view text, size_t begin);

}  // namespace weft::tokenizer
