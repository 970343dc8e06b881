#include "host/host_facts.hpp"

#include <dlfcn.h>

#include "base/text.hpp"
#include "weft_build_id.h"

namespace weft::host {
namespace {

void anchor() {}  // dladdr finds this library by its address

HostFacts make_facts() {
  Dl_info info = {};
  std::error_code code;
  std::filesystem::path library;
  if (dladdr(reinterpret_cast<void*>(&anchor), &info) != 0 && info.dli_fname != nullptr) {
    library = std::filesystem::canonical(info.dli_fname, code);
    // The path may be relative to a working folder that the program has left since.
    if (code) library = std::filesystem::canonical("/proc/self/exe", code);
  }
  const std::filesystem::path folder = library.parent_path();
  return {kHostAbi,
          WEFT_VERSION,
          WEFT_TORCH_TAG,
          WEFT_BUILD_ID,
          folder / "libweft_engine.so",
          folder / "weft" / std::to_string(WEFT_ABI_MAJOR) / "plugins"};
}

}  // namespace

const HostFacts& this_host() {
  static const HostFacts* facts = new HostFacts(make_facts());  // never destroyed: plugins may log at exit
  return *facts;
}

}  // namespace weft::host
