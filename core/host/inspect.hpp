// The stages of loading that read files only: FIND to TRUST.
#pragma once

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

namespace weft::host {

// ABI, tier and libtorch tag as the manifest gives them. Throws LoadError.
void check_compatible(const Candidate& candidate, const HostFacts& facts);

// All of it: the file, its note against the manifest, the machine, the above, who may write it, its digest.
// `root` is the search path that the plugin must not leave. Throws LoadError.
void inspect(const Candidate& candidate, const std::filesystem::path& root, const HostFacts& facts);

}  // namespace weft::host
