// What a plugin is compared with: this build of Weft. Tests invent others.
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

// Of the libweft that this code is part of.
const HostFacts& this_host();

}  // namespace weft::host
