// The installed plugins: every plugin folder below the search paths, with its manifest or with what is wrong
// with it.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/manifest.hpp"
#include "host/pins.hpp"
#include "host/search_paths.hpp"
#include "host/semantic_version.hpp"

namespace weft::host {

// One version of one plugin: <root>/<id>/<version>/plugin.json.
struct Installed {
  size_t root = 0;  // index into Catalogue::paths.roots
  std::filesystem::path folder;
  std::string id, version;             // from the names of the folders
  std::optional<Manifest> manifest;    // nothing if it cannot be read; then `problem` says why
  std::optional<std::string> problem;  // why the manifest cannot be read, or why the plugin is left out

  bool is_damaged = false;  // the manifest cannot be read, and the plugin is not left out
};

// A library of a plugin that may be loaded.
struct Candidate {
  const Installed* installed = nullptr;
  const LibraryEntry* library = nullptr;

  const Manifest& manifest() const { return *installed->manifest; }
  std::filesystem::path path() const { return installed->folder / library->file; }
  std::string label() const;  // `strategy "NAME" 1.4.0`
};

struct Catalogue {
  SearchPaths paths;
  std::vector<Installed> plugins;  // by root, id, version from the newest
  std::vector<bool> root_exists;
  Pins pins;
  // By id, the versions that this process asked for before. They count more than pins.
  std::map<std::string, VersionRequest, std::less<>> bound;

  // Returns true if the plugin is the default of this kind: its manifest says so, and none that is installed
  // with Weft under another id says it, too.
  bool is_default(const Installed& installed, std::string_view kind) const;
  // Returns the versions of the plugin that are meant where nobody names one.
  const VersionRequest& usual(std::string_view id) const;

  // Returns the libraries of this kind that provide `name`, or those of default plugins if `name` is empty,
  // in the versions of `request`, or in the usual ones if it is empty. The newest version comes first, equal
  // versions in the order of the search paths. A version that was found in an earlier search path already is
  // left out.
  std::vector<Candidate> find(std::string_view kind, std::string_view name,
                              const VersionRequest& request = {}) const;
  std::vector<Candidate> find_all(std::string_view kind, std::string_view name) const;  // in every version
  // Returns the damaged version that would come before this candidate, of which nobody can tell what it
  // provides, or null.
  const Installed* find_damaged(const Candidate& candidate, const VersionRequest& request) const;
  std::vector<std::string> provided_names(std::string_view kind) const;
};

// Finds all plugins. Reads manifests and no other file.
Catalogue scan(SearchPaths paths);

}  // namespace weft::host
