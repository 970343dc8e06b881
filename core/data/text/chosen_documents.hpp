// Which documents of a source samples are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/token_cache.hpp"
#include "weft/data/text.hpp"

namespace weft::data {

// What samples of text need of TextOptions and TextEncoder.
struct SampleOptions {
  int64_t sequence_length = 0;
  Packing packing = Packing::kDocuments;
  bool drop_long_documents = false;
  double held_out = 0;
  Part part = Part::kAll;
  int64_t seed = 1024;
  bool labels = true, positions = false;
  std::optional<PackedAttention> attention;
  int64_t padding = 0;  // the id
  bool pads_left = false;
  // Whether, with Packing::kNone, each sample of a document begins with the last token of the one before, so
  // that together they predict every token but the first. These samples have no mask and no positions, and
  // padding behind them: tokens do not see what follows.
  bool overlap = false;
};

struct ChosenDocuments {
  std::vector<int64_t> documents;  // by their index in the cache, in order
  int64_t too_long = 0;            // that were left out
  int64_t of_other_part = 0;       // that are held out, or read where the held-out ones are
};

// Returns the documents of a part of the source `name`. Throws INVALID_ARGUMENT if there are none.
ChosenDocuments choose_documents(const TokenCache& cache, const std::string& name,
                                 const SampleOptions& options);

// Throws INVALID_ARGUMENT that says why no document is read. `too_long`: how many were left out for that.
[[noreturn]] void refuse_without_documents(const TokenCache& cache, const std::string& name, int64_t too_long,
                                           const SampleOptions& options);

}  // namespace weft::data
