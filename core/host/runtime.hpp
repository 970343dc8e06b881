// The implementation of weft_runtime.
#pragma once

#include <weft/runtime.h>

#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "host/catalogue.hpp"
#include "host/host_facts.hpp"
#include "host/loader.hpp"

struct weft_runtime {
  std::vector<std::string> plugin_paths;
  bool safe_mode = false;
  weft::host::HostFacts facts;

  // Searches again at each call, so that a version that was installed since is found.
  weft::host::SearchPaths paths() const;
  weft::host::Catalogue scan() const;
  // Loads as weft::host::resolve does. Where a version is named, it is the usual one of the plugin from then
  // on: a model and its policy are of one version.
  const weft::host::LoadedLibrary& load(std::string_view kind, std::string_view name,
                                        std::string_view version);

 private:
  mutable std::mutex mutex_;  // of bound_
  std::map<std::string, weft::host::VersionRequest, std::less<>> bound_;
};

namespace weft::host {

// Returns JSON as a string that the caller releases with weft_text_destroy. Replaces bytes that are not valid
// UTF-8, such as those of a path.
weft_str own_text(const nlohmann::json& value);

}  // namespace weft::host
