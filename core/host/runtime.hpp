// The implementation of weft_runtime.
#pragma once

#include <weft/runtime.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"

struct weft_runtime {
  std::vector<std::string> plugin_paths;
  bool safe_mode = false;
  weft::host::HostFacts facts;

  // Searches again at each call, so that a version that was installed since is found.
  weft::host::Catalogue scan() const {
    return weft::host::scan(weft::host::find_search_paths(plugin_paths, safe_mode, facts.plugins));
  }
};

namespace weft::host {

// Returns JSON as a string that the caller releases with weft_text_destroy. Replaces bytes that are not valid
// UTF-8, such as those of a path.
weft_str own_text(const nlohmann::json& value);

}  // namespace weft::host
