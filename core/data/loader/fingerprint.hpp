// Tells two data sets apart without reading all of them.
#pragma once

#include <cstdint>
#include <string>

#include "weft/data/dataset.hpp"

namespace weft::data {

// Returns a digest of `samples` samples spread evenly over the data set, the first and the last among them;
// of all samples if there are no more. Another file, another order of tokens and another sequence length
// give another digest.
std::string fingerprint(const Dataset& dataset, int64_t samples);

// Returns what ranks compare of their data sets: the prefix of the fingerprint of 256 samples.
std::string compared_content(const Dataset& dataset);

}  // namespace weft::data
