// The positions of tokens in rows with padding.
#pragma once

#include <memory>

#include "weft/data/dataset.hpp"

namespace weft::data {

// Returns `dataset` with "position_ids" that begin with 0 at the first token of each row, for batches with
// padding on the left, so that it changes no position of a token. Returns `dataset` itself if it has no
// "attention_mask", or positions of its own.
std::shared_ptr<Dataset> with_counted_positions(std::shared_ptr<Dataset> dataset);

}  // namespace weft::data
