// The one place that opens libraries at run time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::host {

// A library that stays open until the process ends: tensors hold functions of plugins, and thread pools
// outlive them.
class DynamicLibrary {
 public:
  // Symbols are resolved at once and shown to nobody else. `path` must be absolute. Throws std::exception
  // with the loader's text.
  explicit DynamicLibrary(const std::filesystem::path& path);

  // The address of an exported symbol, or null.
  void* find(const std::string& symbol) const;

 private:
  const void* library_;
};

// Paths of the mapped libraries whose file name is `stem`.so or begins with `stem`.so. (libtorch_cpu.so.2.6).
std::vector<std::string> mapped_libraries(std::string_view stem);

}  // namespace weft::host
