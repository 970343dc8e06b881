// `weft evaluate --by-document`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/text_documents.hpp"
#include "weft/job.hpp"

namespace weft::command {

// The loss of the tokens of a document, or of several ones.
struct TokenLoss {
  double sum = 0, tokens = 0;
  TokenLoss& operator+=(const TokenLoss& other);
  // Returns "tokens", and if there are any "loss" and "perplexity".
  nlohmann::json as_json() const;
};

// Returns the loss of each document. `options` are those of a loader, without an order: windows of similar
// lengths come together. All ranks get the same. Collective.
std::vector<TokenLoss> document_losses(Job& job, const std::shared_ptr<data::TextDocuments>& documents,
                                       data::LoaderOptions options);

// Returns each document with its place ("file", and "line" in a file of JSON lines), then all together with
// the number of "documents" and of "samples", the windows.
std::vector<nlohmann::json> document_lines(const data::TextDocuments& documents,
                                           const std::vector<TokenLoss>& losses);

// Returns the same as a table for people.
std::string document_table(const std::vector<nlohmann::json>& lines);

}  // namespace weft::command
