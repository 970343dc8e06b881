// What is behind weft_runtime.
#pragma once

#include <weft/runtime.h>

#include <string>
#include <vector>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

struct weft_runtime {
  std::vector<std::string> plugin_paths;
  bool safe_mode = false;
  weft::host::HostFacts facts;

  // Looks again at each call, so that a version installed meanwhile is found.
  weft::host::Catalogue scan() const {
    return weft::host::scan(weft::host::find_search_paths(plugin_paths, safe_mode, facts.plugins));
  }
};

namespace weft::host {

// A text for the caller to release with weft_text_destroy.
weft_str own_text(const std::string& text);

}  // namespace weft::host
