// What is behind weft_runtime.
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

  // Looks again at each call, so that a version installed meanwhile is found.
  weft::host::Catalogue scan() const {
    return weft::host::scan(weft::host::find_search_paths(plugin_paths, safe_mode, facts.plugins));
  }
};

namespace weft::host {

// JSON as a text for the caller to release with weft_text_destroy. Bytes that are not UTF-8 (of a path, say)
// are replaced.
weft_str own_text(const nlohmann::json& value);

}  // namespace weft::host
