#include "host/resolve.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "host/load_error.hpp"
#include "host/log.hpp"
#include "host/way_back.hpp"

namespace weft::host {
namespace {

struct Kind {
  std::string_view id;
  const char* nothing;  // "no strategy is called", before the name
};
constexpr std::array<Kind, 10> kKinds = {{{"strategy", "no strategy is called"},
                                          {"shard_policy", "there is no shard policy for the family"},
                                          {"model", "there is no model library for the architecture"},
                                          {"checkpoint_io", "no checkpoint format is called"},
                                          {"operation", "no library has the operation"},
                                          {"device", "no library provides the device"},
                                          {"tokenizer", "no library has the class of tokenizers"},
                                          {"data", "no library has the data set"},
                                          {"objective", "no library has the objective"},
                                          {"hook", "no library has the hook"}}};

const Kind& kind_of(std::string_view id) {
  std::vector<std::string> ids;
  for (const Kind& kind : kKinds) {
    if (kind.id == id) return kind;
    ids.emplace_back(kind.id);
  }
  fail(WEFT_INVALID_ARGUMENT, "the kind of plugin is \"{}\", must be one of {}{}", printable(id),
       fmt::join(ids, ", "), did_you_mean(id, ids));
}

std::string searched_line(const Catalogue& catalogue) {
  std::vector<std::string> paths;
  for (const Root& root : catalogue.paths.roots) paths.push_back(root.path.string());
  return fmt::format("\n(searched {}; `weft plugins doctor` tells what was passed over and why)",
                     fmt::join(paths, ", "));
}

// Returns "first 0.1.0, second 0.1.0", the plugins of this kind.
std::string found_list(const Catalogue& catalogue, std::string_view kind, const std::string* id = nullptr) {
  std::set<std::string> found;
  for (const Installed& installed : catalogue.plugins) {
    if (installed.problem || !installed.manifest || (id != nullptr && installed.id != *id)) continue;
    for (const LibraryEntry& library : installed.manifest->libraries) {
      if (library.kind == kind) found.insert(installed.id + " " + installed.version);
    }
  }
  if (!found.empty()) return fmt::format("{}", fmt::join(found, ", "));
  const std::vector<std::string>& select = catalogue.paths.select;
  if (select.empty()) return "nothing of this kind";
  return fmt::format(
      "nothing of this kind among the plugins that WEFT_PLUGIN_SELECT={} selects; correct it, "
      "or unset it",
      fmt::join(select, ":"));
}

// Returns a line for each plugin of this name whose manifest is broken or which a filter leaves out.
std::string passed_over(const Catalogue& catalogue, std::string_view name) {
  std::string lines;
  for (const Installed& installed : catalogue.plugins) {
    if (!installed.problem) continue;
    bool is_meant = installed.id == name;
    if (installed.manifest) {
      for (const LibraryEntry& library : installed.manifest->libraries) {
        is_meant |=
            std::find(library.provides.begin(), library.provides.end(), name) != library.provides.end();
      }
    }
    if (is_meant)
      lines += fmt::format("\npassed over: {}: {}", installed.folder.string(), *installed.problem);
  }
  return lines;
}

// Returns whether one of the versions of the plugin that are meant is there, whatever it provides.
bool has_usual_version(const Catalogue& catalogue, const std::string& id) {
  return std::any_of(catalogue.plugins.begin(), catalogue.plugins.end(), [&](const Installed& installed) {
    return installed.id == id && catalogue.usual(id).matches(installed.version);
  });
}

// Throws if the versions that provide the name are not those that are meant: NOT_FOUND if what is meant does
// not provide it, and FAILED_PRECONDITION if it is missing.
void refuse_versions(const Catalogue& catalogue, const Kind& kind, std::string_view name,
                     const VersionRequest& request) {
  for (const Candidate& other : catalogue.find_all(kind.id, name)) {
    const std::string& id = other.installed->id;
    const std::string found = found_list(catalogue, kind.id, &id) + searched_line(catalogue);
    const std::string named = fmt::format("{} \"{}\"", kind.id, name.empty() ? id : printable(name));
    if (!request.empty())
      fail(WEFT_NOT_FOUND, "{} is not there in version {}. Found: {}", named, request.text(), found);
    const VersionRequest& usual = catalogue.usual(id);
    const weft_status status = has_usual_version(catalogue, id) ? WEFT_NOT_FOUND : WEFT_FAILED_PRECONDITION;
    if (usual.empty())
      fail(WEFT_NOT_FOUND,
           "{} is there in no version but pre-releases, which are used only if they are named: {}@{}. "
           "Found: {}",
           named, id, other.installed->version, found);
    if (catalogue.bound.contains(id))
      fail(status, "{} is not there in version {}, which this process asked for before. Found: {}", named,
           usual.text(), found);
    fail(status,
         "{} is pinned to version {} in {}, where it is not; `weft plugins unpin {}` removes the pin. Found: "
         "{}",
         named, usual.text(), catalogue.pins.file.string(), id, found);
  }
}

[[noreturn]] void refuse_unknown(const Catalogue& catalogue, const Kind& kind, std::string_view name) {
  if (name.empty()) {
    fail(WEFT_NOT_FOUND,
         "no {} is the default (the plugin.json of the default one says \"default\": true). Found: {}{}",
         kind.id, found_list(catalogue, kind.id), searched_line(catalogue));
  }
  const std::string hidden = passed_over(catalogue, name);
  const std::string hint = did_you_mean(name, catalogue.provided_names(kind.id));
  fail(WEFT_NOT_FOUND, "{} \"{}\"{} Found: {}{}{}", kind.nothing, printable(name),
       !hidden.empty() ? " that can be loaded."
       : hint.empty()  ? "."
                       : hint,
       found_list(catalogue, kind.id), hidden, searched_line(catalogue));
}

void refuse_several(const std::vector<Candidate>& candidates, const Kind& kind, std::string_view name) {
  for (const Candidate& candidate : candidates) {
    const Installed& first = *candidates.front().installed;
    const Installed& other = *candidate.installed;
    if (other.id == first.id) continue;
    fail(WEFT_ALREADY_EXISTS,
         "REGISTER: {} \"{}\" is provided twice, by {} {} in {} and by {} {} in {}; remove one, or leave one "
         "out with "
         "WEFT_PLUGIN_DISABLE={}",
         kind.id, name.empty() ? "(default)" : name, first.id, first.version, first.folder.string(), other.id,
         other.version, other.folder.string(), other.id);
  }
}

// Returns the candidates for a name, of one plugin, from the newest. Throws if there are none.
std::vector<Candidate> candidates_for(const Catalogue& catalogue, const HostFacts& facts, const Kind& kind,
                                      std::string_view name, const VersionRequest& request) {
  catalogue.pins.require_usable();
  std::vector<Candidate> candidates = catalogue.find(kind.id, name, request);
  if (candidates.empty()) {
    refuse_versions(catalogue, kind, name, request);
    refuse_unknown(catalogue, kind, name);
  }
  refuse_several(candidates, kind, name);
  if (const Installed* const damaged = catalogue.find_damaged(candidates.front(), request)) {
    fail(WEFT_DATA_LOSS, "{} {} at {}: {}{}{}", damaged->id, damaged->version, damaged->folder.string(),
         *damaged->problem, way_back(catalogue, facts, *damaged, !request.empty()), searched_line(catalogue));
  }
  return candidates;
}

}  // namespace

const LoadedLibrary& resolve(const Catalogue& catalogue, const HostFacts& facts, std::string_view kind_id,
                             std::string_view asked, std::string_view version) {
  const Kind& kind = kind_of(kind_id);
  const auto [name, behind] = split_name(asked);
  if (!version.empty() && !behind.empty())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" names a version, and so does \"{}\"; leave one out", printable(asked),
         printable(version));
  const VersionRequest request(behind.empty() ? version : behind,
                               fmt::format("the version of {} \"{}\"", kind.id, printable(name)));

  std::vector<std::string> problems;
  weft_status status = WEFT_FAILED_PRECONDITION;
  for (const Candidate& candidate : candidates_for(catalogue, facts, kind, name, request)) {
    try {
      const LoadedLibrary& library =
          load_library(candidate, catalogue.paths.roots[candidate.installed->root].path, facts);
      for (const std::string& problem : problems) {
        log(WEFT_LOG_WARNING, "plugins",
            fmt::format("passed over {}; using version {}", problem, library.version));
      }
      return library;
    } catch (const LoadError& error) {
      problems.push_back(
          fmt::format("{} at {}: {}", candidate.label(), candidate.path().string(), error.what()));
      if (problems.size() == 1) status = error.status();
      if (error.is_incompatible()) continue;
      const std::string back = way_back(catalogue, facts, *candidate.installed, !request.empty());
      throw Error(error.status(), problems.back() + back + searched_line(catalogue));
    }
  }
  throw Error(status, fmt::format("{}{}", fmt::join(problems, "\n"), searched_line(catalogue)));
}

}  // namespace weft::host
