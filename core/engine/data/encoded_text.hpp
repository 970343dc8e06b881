// Opens text with any encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/text_documents.hpp"
#include "data/text_encoder.hpp"
#include "weft/data/text.hpp"

namespace weft::data {

// Does what open_text() does, with an encoder in place of a tokenizer.
std::shared_ptr<Dataset> open_encoded_text(const std::vector<TextSource>& sources, const TextEncoder& encoder,
                                           const TextOptions& options);
// Returns the ids that a tokenizer puts around and between the two sequences of a pair. Throws
// INVALID_ARGUMENT if it puts none between them.
std::vector<int64_t> special_ids_of_pairs(const Tokenizer& tokenizer);
// Does what open_documents() does.
std::shared_ptr<TextDocuments> open_encoded_documents(const std::vector<TextSource>& sources,
                                                      const TextEncoder& encoder, const TextOptions& options);

}  // namespace weft::data
