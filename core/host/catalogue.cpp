#include "host/catalogue.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/load_error.hpp"

namespace weft::host {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFolders = 4096;  // a search path that is not a folder of plugins must not take minutes

// Returns the names of the folders in `folder`, sorted, because readdir has no order.
std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    std::error_code own_code;  // a link that leads nowhere must not end the search
    if (is_plain_name(name) && entry->is_directory(own_code)) names.push_back(name);
    if (names.size() == kMostFolders) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

Installed read_installed(size_t root, const fs::path& folder, const std::string& id,
                         const std::string& version) {
  Installed installed{root, folder, id, version, std::nullopt, std::nullopt, false};
  try {
    Manifest manifest = read_manifest(folder / "plugin.json");
    if (manifest.id != id || manifest.version != version) {
      throw LoadError(
          Stage::kManifest, WEFT_INVALID_ARGUMENT,
          fmt::format("{} is for {} {}, but lies in a folder for {} {}; rename the folder",
                      (folder / "plugin.json").string(), manifest.id, manifest.version, id, version));
    }
    installed.manifest = std::move(manifest);
  } catch (const Error& error) {
    installed.problem = error.what();
    installed.is_damaged = true;
  }
  return installed;
}

// Returns whether `a` comes before `b` among the versions of a plugin.
bool is_before(const Installed& a, const Installed& b) {
  const std::strong_ordering order = compare_versions(a.version, b.version);
  return order > 0 || (order == 0 && a.root < b.root);
}

}  // namespace

std::string Candidate::label() const {
  return fmt::format("{} \"{}\" {}", library->kind, installed->id, installed->version);
}

Catalogue scan(SearchPaths paths) {
  Catalogue catalogue;
  for (size_t root = 0; root < paths.roots.size(); ++root) {
    const fs::path& path = paths.roots[root].path;
    std::error_code code;
    catalogue.root_exists.push_back(fs::is_directory(path, code));
    for (const std::string& id : folders_in(path)) {
      std::vector<std::string> versions = folders_in(path / id);
      std::erase_if(versions, [](const std::string& version) { return !is_version(version); });
      std::stable_sort(versions.begin(), versions.end(),
                       [](const auto& a, const auto& b) { return compare_versions(a, b) > 0; });
      for (const std::string& version : versions) {
        Installed installed = read_installed(root, path / id / version, id, version);
        if (const auto reason = paths.left_out(id)) {
          installed.problem = reason;
          installed.is_damaged = false;
        }
        catalogue.plugins.push_back(std::move(installed));
      }
    }
  }
  catalogue.pins = read_pins(paths.own);
  catalogue.paths = std::move(paths);
  return catalogue;
}

bool Catalogue::is_default(const Installed& installed, std::string_view kind) const {
  const auto says_so = [&](const Installed& plugin) {
    if (!plugin.manifest || !plugin.manifest->is_default) return false;
    const auto& libraries = plugin.manifest->libraries;
    return std::any_of(libraries.begin(), libraries.end(), [&](const auto& l) { return l.kind == kind; });
  };
  bool has_own = false, is_own = false;
  for (const Installed& other : plugins) {
    if (other.problem || !paths.roots[other.root].is_of_weft || !says_so(other)) continue;
    has_own = true;
    is_own |= other.id == installed.id;
  }
  return says_so(installed) && (is_own || !has_own);
}

const VersionRequest& Catalogue::usual(std::string_view id) const {
  static const VersionRequest kAny;
  if (const auto found = bound.find(id); found != bound.end()) return found->second;
  const auto found = pins.by_id.find(id);
  return found == pins.by_id.end() ? kAny : found->second;
}

std::vector<Candidate> Catalogue::find(std::string_view kind, std::string_view name,
                                       const VersionRequest& request) const {
  std::vector<Candidate> found = find_all(kind, name);
  std::erase_if(found, [&](const Candidate& candidate) {
    const Installed& installed = *candidate.installed;
    return !(request.empty() ? usual(installed.id) : request).matches(installed.version);
  });
  return found;
}

const Installed* Catalogue::find_damaged(const Candidate& candidate, const VersionRequest& request) const {
  const Installed& chosen = *candidate.installed;
  const VersionRequest& meant = request.empty() ? usual(chosen.id) : request;
  for (const Installed& other : plugins)
    if (other.is_damaged && other.id == chosen.id && meant.matches(other.version) && is_before(other, chosen))
      return &other;
  return nullptr;
}

std::vector<Candidate> Catalogue::find_all(std::string_view kind, std::string_view name) const {
  std::vector<Candidate> found;
  for (const Installed& installed : plugins) {
    if (installed.problem || !installed.manifest) continue;
    for (const LibraryEntry& library : installed.manifest->libraries) {
      const auto& names = library.provides;
      const bool is_meant = name.empty() ? is_default(installed, kind)
                                         : std::find(names.begin(), names.end(), name) != names.end();
      const bool is_shadowed = std::any_of(found.begin(), found.end(), [&](const Candidate& other) {
        return other.installed->id == installed.id && other.installed->version == installed.version &&
               other.installed->root != installed.root;
      });
      if (library.kind == kind && is_meant && !is_shadowed) found.push_back({&installed, &library});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return compare_versions(a.installed->version, b.installed->version) > 0;
  });
  return found;
}

std::vector<std::string> Catalogue::provided_names(std::string_view kind) const {
  std::vector<std::string> names;
  for (const Installed& installed : plugins) {
    if (installed.problem || !installed.manifest) continue;
    for (const LibraryEntry& library : installed.manifest->libraries) {
      if (library.kind == kind) names.insert(names.end(), library.provides.begin(), library.provides.end());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace weft::host
