#include "host/listing.hpp"

#include <optional>

#include "base/text.hpp"
#include "host/inspect.hpp"
#include "host/load_error.hpp"
#include "host/loader.hpp"
#include "host/way_back.hpp"

namespace weft::host {
namespace {

using nlohmann::json;

// Returns whether jobs that name no version choose this one, which is found before older ones.
bool is_chosen(const Catalogue& catalogue, const Installed& installed) {
  const VersionRequest& usual = catalogue.usual(installed.id);
  for (const Installed& other : catalogue.plugins)
    if (other.id == installed.id && !other.problem && usual.matches(other.version) &&
        compare_versions(other.version, installed.version) > 0)
      return false;
  return usual.matches(installed.version);
}

// Returns what a job says that meets this version and ends there.
std::string ending(const Catalogue& catalogue, const Installed& installed, const HostFacts& facts,
                   const std::string& problem) {
  return is_chosen(catalogue, installed) ? problem + way_back(catalogue, facts, installed, false) : problem;
}

// Sets `damaged` if a job that meets this version ends, where it would pass over others.
std::optional<std::string> find_problem(const Catalogue& catalogue, const Candidate& candidate,
                                        const HostFacts& facts, bool deeply, bool* damaged) {
  if (candidate.installed->problem) return candidate.installed->problem;
  try {
    if (deeply) {
      inspect(candidate, catalogue.paths.roots[candidate.installed->root].path, facts);
    } else {
      check_compatible(candidate, facts);
    }
  } catch (const LoadError& error) {
    if (error.is_incompatible()) return error.what();
    *damaged = true;
    return ending(catalogue, *candidate.installed, facts, error.what());
  }
  return std::nullopt;
}

// Returns the first folder with the same plugin in the same version, which shadows all later ones.
const Installed* find_shadow(const Catalogue& catalogue, const Installed& installed) {
  for (const Installed& other : catalogue.plugins) {
    if (&other == &installed) return nullptr;
    if (!other.problem && other.id == installed.id && other.version == installed.version) return &other;
  }
  return nullptr;
}

bool is_loaded(const Candidate& candidate) {
  std::error_code code;
  const std::string path = std::filesystem::canonical(candidate.path(), code).string();
  for (const LoadedLibrary* library : loaded_libraries()) {
    if (library->path == path) return true;
  }
  return false;
}

json describe(const Catalogue& catalogue, const Installed& installed, const LibraryEntry& library,
              const HostFacts& facts, bool deeply) {
  const Candidate candidate = {&installed, &library};
  json entry = {{"id", installed.id},
                {"version", installed.version},
                {"kind", library.kind},
                {"provides", library.provides},
                {"tier", tier_name(library.tier)},
                {"folder", installed.folder.string()},
                {"file", library.file},
                {"default", catalogue.is_default(installed, library.kind) && is_chosen(catalogue, installed)},
                {"description", installed.manifest->description},
                {"loaded", is_loaded(candidate)}};
  bool damaged = false;
  std::optional<std::string> problem = find_problem(catalogue, candidate, facts, deeply, &damaged);
  if (const Installed* shadow = find_shadow(catalogue, installed); shadow != nullptr && !problem) {
    problem = fmt::format("the same version was found earlier, in {}", shadow->folder.string());
  }
  if (problem) entry["problem"] = *problem;
  if (damaged) entry["damaged"] = true;
  if (catalogue.pins.by_id.contains(installed.id) && catalogue.usual(installed.id).matches(installed.version))
    entry["pinned"] = catalogue.usual(installed.id).text();
  if (!installed.manifest->warnings.empty()) entry["warnings"] = installed.manifest->warnings;
  return entry;
}

}  // namespace

json make_listing(const Catalogue& catalogue, const HostFacts& facts, bool deeply) {
  json listing = {{"plugins", json::array()}, {"searched", json::array()}, {"notes", catalogue.paths.notes}};
  if (catalogue.pins.problem) listing["notes"].push_back(*catalogue.pins.problem);
  for (const Installed& installed : catalogue.plugins) {
    if (!installed.manifest) {
      listing["plugins"].push_back(
          {{"id", installed.id},
           {"version", installed.version},
           {"folder", installed.folder.string()},
           {"damaged", installed.is_damaged},
           {"problem", installed.is_damaged ? ending(catalogue, installed, facts, *installed.problem)
                                            : installed.problem.value_or("")}});
      continue;
    }
    for (const LibraryEntry& library : installed.manifest->libraries) {
      listing["plugins"].push_back(describe(catalogue, installed, library, facts, deeply));
    }
  }
  for (size_t i = 0; i < catalogue.paths.roots.size(); ++i) {
    const Root& root = catalogue.paths.roots[i];
    listing["searched"].push_back(
        {{"path", root.path.string()}, {"from", root.origin}, {"exists", bool(catalogue.root_exists[i])}});
  }
  return listing;
}

}  // namespace weft::host
