// The stages of loading that only read files: FIND to TRUST.
#pragma once

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// Checks that a library runs with the libtorch of this tag; `who` has it. Throws LoadError (TORCH_TAG).
void check_torch(const LibraryEntry& library, std::string_view torch_tag, std::string_view who);

// Checks ABI, tier and libtorch tag of the manifest. Throws LoadError.
void check_compatible(const Candidate& candidate, const HostFacts& facts);

// Checks everything that can be checked without loading: that the file exists, that its note agrees with the
// manifest, its machine, check_compatible(), who can write it, and its digest. The plugin must be inside the
// search path `root`. Throws LoadError.
void inspect(const Candidate& candidate, const std::filesystem::path& root, const HostFacts& facts);

}  // namespace weft::host
