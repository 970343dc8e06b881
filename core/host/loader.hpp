// Loads a library of a plugin: inspects and opens it, negotiates, checks its tables and initialises it.
#pragma once

#include <weft/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// A loaded library. It is never changed and stays valid until the process ends.
struct LoadedLibrary {
  std::string id, version, kind, path, digest, manifest;
  std::vector<std::string> provides;
  uint32_t tier = 0;
  uint32_t abi_minor = 0;
  const weft_plugin* plugin = nullptr;
  weft_plugin_query_fn query = nullptr;
};

// Loads the library of `candidate`, or returns it if it is loaded already. Loads the engine first for the
// tiers torch and native. Throws LoadError; then nothing has changed, except that a library that failed after
// DLOPEN stays mapped.
const LoadedLibrary& load_library(const Candidate& candidate, const std::filesystem::path& root,
                                  const HostFacts& facts);

// Returns all loaded libraries in the order in which they were loaded.
std::vector<const LoadedLibrary*> loaded_libraries();

// Throws LoadError (DOUBLE_TORCH) if more than one libtorch or libc10 is mapped, or none although
// `is_needed`.
void check_one_torch(bool is_needed);

}  // namespace weft::host
