#include "host/host_facts.hpp"

#include <dlfcn.h>

#include "base/text.hpp"

namespace weft::host {
namespace {

void anchor() {}  // its address tells which library this is

HostFacts make_facts() {
  Dl_info info = {};
  std::error_code code;
  std::filesystem::path library;
  if (dladdr(reinterpret_cast<void*>(&anchor), &info) != 0 && info.dli_fname != nullptr) {
    library = std::filesystem::canonical(info.dli_fname, code);
    // A program's own name may be relative to a folder that it has left since.
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
