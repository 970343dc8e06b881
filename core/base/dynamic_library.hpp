// Opens shared libraries. No other code calls the dynamic loader.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// A shared library. It stays open until the process ends, because tensors and thread pools may still call its
// functions.
class DynamicLibrary {
 public:
  // Opens `path`, which is absolute, or the name of a library that the dynamic loader finds by itself, such
  // as "libsndfile.so.1". All symbols are resolved now and are not visible to other libraries. Throws
  // std::exception with the text of the dynamic loader.
  explicit DynamicLibrary(const std::filesystem::path& path);

  // Returns the address of an exported symbol, or null.
  void* find(const std::string& symbol) const;

 private:
  const void* library_;
};

// Returns the paths of the mapped libraries whose file name is `stem`.so or begins with `stem`.so. as
// libtorch.so.2 does.
std::vector<std::string> mapped_libraries(std::string_view stem);

}  // namespace weft
