// Tells two checkpoints apart without reading all of them.
#pragma once

#include <string>

#include "files/format.hpp"

namespace weft::checkpoint {

// Returns a digest of the names, dtypes and shapes of all tensors, and of blocks of elements spread over each
// tensor: at least one block of every tensor, and everything if the checkpoint is small. The same tensors in
// another order, in other files or in another format have the same digest. Reads about 8 MiB whatever the
// size. Throws the errors of the format.
std::string fingerprint(const TensorSource& source);

// Returns what ranks compare of their checkpoints: the prefix of the fingerprint.
std::string compared_content(const TensorSource& source);

}  // namespace weft::checkpoint
