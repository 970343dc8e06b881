// What is installed: every plugin folder below the search paths, with its manifest or what is wrong with it.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/manifest.hpp"
#include "host/search_paths.hpp"

namespace weft::host {

// One version of one plugin: <root>/<id>/<version>/plugin.json.
struct Installed {
  size_t root = 0;  // index into Catalogue::paths.roots
  std::filesystem::path folder;
  std::string id, version;             // of the folders' names
  std::optional<Manifest> manifest;    // nothing: see problem
  std::optional<std::string> problem;  // with the manifest missing, or why the plugin is left out
};

// One library of a plugin that could be loaded.
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

  // The libraries of this kind that provide `name` (empty: whose manifest is the default), newest version
  // first, then in the order of the search; the same version found again further down the search is shadowed
  // and left out.
  std::vector<Candidate> find(std::string_view kind, std::string_view name, std::string_view version) const;
  std::vector<std::string> provided_names(std::string_view kind) const;
};

// Reads manifests and nothing else.
Catalogue scan(SearchPaths paths);

}  // namespace weft::host
