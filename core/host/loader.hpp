// Loads a library: inspects it, opens it, asks it, checks its tables, starts it, and keeps it until the
// process ends.
#pragma once

#include <weft/plugin.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// Never destroyed and never changed.
struct LoadedLibrary {
  std::string id, version, kind, path, digest, manifest;
  std::vector<std::string> provides;
  uint32_t tier = 0;
  uint32_t abi_minor = 0;
  const weft_plugin* plugin = nullptr;
  weft_plugin_query_fn query = nullptr;
};

// Returns the library of `candidate`, loaded now or before. Tiers torch and native load the engine first.
// Throws LoadError; the process is as before, except that a library which failed after DLOPEN stays mapped.
const LoadedLibrary& load_library(const Candidate& candidate, const std::filesystem::path& root,
                                  const HostFacts& facts);

// All loaded libraries, in order of loading.
std::vector<const LoadedLibrary*> loaded_libraries();

// Throws LoadError (DOUBLE_TORCH) unless at most one libtorch and one libc10 are mapped, and one is if
// `is_needed`.
void check_one_torch(bool is_needed);

}  // namespace weft::host
