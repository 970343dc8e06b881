// Reads small files, and writes to descriptors.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

// Returns the bytes of a regular file. Throws, with the path: NOT_FOUND if it cannot be opened,
// INVALID_ARGUMENT if it is not a regular file or is longer than `max_bytes`, DATA_LOSS if it cannot be read
// or is a Git LFS pointer.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

// Throws DATA_LOSS if `bytes`, the beginning of the file that messages call `shown`, are a Git LFS pointer:
// the text that a clone has in place of a file until `git lfs pull` fetches it.
void refuse_lfs_pointer(std::string_view bytes, std::string_view shown);

// Writes all bytes to a descriptor, and waits where a non-blocking one is full. Returns 0, or the errno of
// the write that failed.
int write_all(int descriptor, std::string_view bytes) noexcept;

// Returns true if both were read from the same file, by whatever names.
bool is_same_file(const struct stat& a, const struct stat& b);

}  // namespace weft
