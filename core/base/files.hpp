// Small files, read whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace weft {

// The bytes of a regular file. Throws NOT_FOUND if it cannot be opened, INVALID_ARGUMENT if it is not a
// regular file or longer than `max_bytes`, DATA_LOSS if it cannot be read; the text names the path.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

}  // namespace weft
