// Describes a build of Weft, against which plugins are checked. Tests make up others.
#pragma once

#include <filesystem>
#include <string>

#include "host/abi_range.hpp"

namespace weft::host {

struct HostFacts {
  AbiRange abi = kHostAbi;
  std::string version;            // of Weft
  std::string torch_tag;          // of the libtorch that Weft was built for
  std::string build_id;           // of the engine
  std::filesystem::path engine;   // libweft_engine.so, beside libweft.so
  std::filesystem::path plugins;  // the folder of the plugins that are installed with Weft
};

// Returns the facts of the libweft that this code is part of.
const HostFacts& this_host();

}  // namespace weft::host
