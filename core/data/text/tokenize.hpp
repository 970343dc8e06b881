// Tokenizes the files of a source once, and keeps the ids.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "text/text_encoder.hpp"
#include "text/text_files.hpp"
#include "text/token_cache.hpp"
#include "weft/world.hpp"

namespace weft::data {

struct TokenizeOptions {
  bool skip_broken_lines = false;
  int64_t threads = 0;  // 0: as many as the machine runs at once
  std::chrono::milliseconds timeout =
      kDefaultTimeout;  // how long a process that makes the ids may make no progress
  std::function<void(const std::string& source, int64_t done, int64_t total)> progress;
  std::function<void(const std::string& note)> note;
  bool separates = false;  // as DocumentEncoder has it
};

// Returns the ids of all documents: those that a file keeps, or new ones, which are kept for the next time.
// TextOptions and open_text() say where the file is, when it is made again, and what is an error. The
// description is an object with "empty_documents", "broken_lines", "first_broken" and "sources": of each file
// its "name" and the number of its "documents".
TokenCache tokenize(const TextFiles& files, const TextEncoder& encoder, const TokenizeOptions& options);

}  // namespace weft::data
