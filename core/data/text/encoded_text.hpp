// Opens text with any encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "text/text_documents.hpp"
#include "text/text_encoder.hpp"
#include "weft/data/text.hpp"

namespace weft::data {

// Does what open_text() does, with an encoder in place of a tokenizer.
std::shared_ptr<Dataset> open_encoded_text(const std::vector<TextSource>& sources, const TextEncoder& encoder,
                                           const TextOptions& options);
// Returns the ids that a tokenizer gives a role other than that of the unknown token and, if samples are
// `pairs`, those that join two sequences. Throws INVALID_ARGUMENT if pairs have none between them.
std::vector<int64_t> special_ids_of(const Tokenizer& tokenizer, bool pairs);
// Does what open_documents() does.
std::shared_ptr<TextDocuments> open_encoded_documents(const std::vector<TextSource>& sources,
                                                      const TextEncoder& encoder, const TextOptions& options);

}  // namespace weft::data
