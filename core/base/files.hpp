// Reads small files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace weft {

// Returns the bytes of a regular file. Throws, with the path: NOT_FOUND if it cannot be opened,
// INVALID_ARGUMENT if it is not a regular file or is longer than `max_bytes`, DATA_LOSS if it cannot be read.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

}  // namespace weft
