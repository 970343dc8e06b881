#include "host/plugin_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <vector>

#include "base/file_lock.hpp"
#include "base/text.hpp"
#include "host/catalogue.hpp"
#include "host/inspect.hpp"
#include "host/load_error.hpp"
#include "host/plugin_files.hpp"
#include "host/trust.hpp"

namespace weft::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kTemporary = ".weft-";  // how the names of unfinished folders begin

const fs::path& own_folder(const SearchPaths& paths) {
  if (!paths.own.empty()) return paths.own;
  fail(WEFT_FAILED_PRECONDITION, "there is no folder of your own in which Weft searches for plugins: {}",
       paths.notes.empty() ? "neither XDG_DATA_HOME nor HOME is an absolute path"
                           : fmt::format("{}", fmt::join(paths.notes, "; ")));
}

const fs::path& made(const fs::path& folder) {
  make_folders(folder);
  return folder;
}

// The right to change the user's folder, and what is installed from then on. Removes what killed processes
// left.
class Change {
 public:
  explicit Change(const SearchPaths& paths) : own_(made(own_folder(paths))), lock_(own_ / ".lock") {
    if (!lock_.try_lock()) {
      const std::optional<LockHolder> holder = lock_.holder();
      fail(WEFT_UNAVAILABLE, "{} is being changed by {}; wait for its end", own_.string(),
           holder ? holder->text() : "another process");
    }
    std::error_code ignored;
    std::vector<fs::path> leftovers;
    for (const fs::directory_entry& entry : fs::directory_iterator(own_, ignored))
      if (entry.path().filename().string().starts_with(kTemporary)) leftovers.push_back(entry.path());
    for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
    catalogue_ = scan(paths);
  }
  Change(const Change&) = delete;

  const fs::path& own() const { return own_; }
  const Catalogue& catalogue() const { return catalogue_; }

 private:
  const fs::path own_;
  FileLock lock_;
  Catalogue catalogue_;
};

// A new folder that nobody takes for a plugin, with what is in it when its end comes.
class Temporary {
 public:
  explicit Temporary(const fs::path& own) : path_((own / kTemporary).string() + "XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr || ::chmod(path_.c_str(), 0755) != 0)
      fail(WEFT_UNAVAILABLE, "cannot create {}: {}", path_, std::strerror(errno));
  }
  ~Temporary() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Temporary(const Temporary&) = delete;
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

// Gives a folder another name, unless something has it.
void rename_folder(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  int code = errno;
  // A file system without the flag. Nobody else makes the folder, because of the lock.
  if ((code == EINVAL || code == ENOSYS) && !fs::exists(to))
    code = ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  if (code != 0)
    fail(code == EEXIST ? WEFT_ALREADY_EXISTS : WEFT_UNAVAILABLE, "cannot name the folder {}: {}",
         to.string(), std::strerror(code));
}

bool is_called(const Installed& installed, std::string_view name) {
  if (installed.id == name) return true;
  if (!installed.manifest) return false;
  const auto& libraries = installed.manifest->libraries;
  return std::any_of(libraries.begin(), libraries.end(), [&](const LibraryEntry& library) {
    return std::find(library.provides.begin(), library.provides.end(), name) != library.provides.end();
  });
}

// Returns the versions of the plugin with this id, or of the only one that provides the name.
std::vector<const Installed*> find_called(const Catalogue& catalogue, std::string_view name) {
  std::vector<const Installed*> by_id, by_name;
  std::vector<std::string> names;
  std::set<std::string> ids;
  for (const Installed& installed : catalogue.plugins) {
    if (installed.id == name) by_id.push_back(&installed);
    if (is_called(installed, name)) by_name.push_back(&installed), ids.insert(installed.id);
    names.push_back(installed.id);
  }
  if (!by_id.empty()) return by_id;
  if (ids.size() > 1)
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is provided by several plugins: {}; name one of these",
         printable(name), fmt::join(ids, ", "));
  if (by_name.empty())
    fail(WEFT_NOT_FOUND, "no plugin is called \"{}\"{}\n`weft plugins list` shows what there is",
         printable(name), did_you_mean(name, names));
  return by_name;
}

std::string versions_text(const std::vector<const Installed*>& plugins) {
  std::vector<std::string> texts;
  for (const Installed* installed : plugins)
    texts.push_back(fmt::format("{}{} in {}", installed->version, installed->is_damaged ? " (damaged)" : "",
                                installed->folder.string()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns the newest version that can be used.
const Installed* newest_of(const Catalogue& catalogue, std::string_view id, const VersionRequest& request,
                           const Installed* without = nullptr) {
  const Installed* newest = nullptr;
  for (const Installed& installed : catalogue.plugins)
    if (installed.id == id && &installed != without && !installed.is_damaged &&
        request.matches(installed.version) &&
        (newest == nullptr || compare_versions(installed.version, newest->version) > 0))
      newest = &installed;
  return newest;
}

json description(const Installed& installed) {
  return {{"id", installed.id}, {"version", installed.version}, {"folder", installed.folder.string()}};
}

// Reads and checks the plugin in `folder` as if it were in its place.
Installed inspect_copy(const fs::path& folder, const fs::path& root, const HostFacts& facts) {
  Installed installed;
  installed.manifest = read_manifest(folder / "plugin.json");
  installed.folder = folder;
  installed.id = installed.manifest->id;
  installed.version = installed.manifest->version;
  for (const LibraryEntry& library : installed.manifest->libraries)
    inspect({&installed, &library}, root, facts);
  return installed;
}

// Installs what the folder or archive `source` holds. Returns where.
Installed install(const Change& change, const HostFacts& facts, const fs::path& source) {
  const Temporary temporary(change.own());
  const fs::path copy = copy_plugin(source, temporary.path(), trusted_owners(facts.engine.parent_path()));
  Installed installed = inspect_copy(copy, change.own(), facts);
  installed.folder = change.own() / installed.id / installed.version;
  if (fs::exists(installed.folder))
    fail(WEFT_ALREADY_EXISTS,
         "{0} {1} is installed already, in {2}; `weft plugins remove {0}@={1}` removes it", installed.id,
         installed.version, installed.folder.string());
  make_folders(installed.folder.parent_path());
  try {
    rename_folder(copy, installed.folder);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove(installed.folder.parent_path(), ignored);  // fails where it has other versions
    throw;
  }
  return installed;
}

}  // namespace

json install_plugin(const SearchPaths& paths, const HostFacts& facts, const fs::path& source) {
  const Change change(paths);
  Installed installed;
  try {
    installed = install(change, facts, source);
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{} is not installed: {}", source.string(), error.what()));
  } catch (const fs::filesystem_error& error) {
    fail(WEFT_UNAVAILABLE, "{} is not installed: {}", source.string(), error.what());
  }
  sync_folder(installed.folder.parent_path());
  sync_folder(change.own());
  json result = description(installed);
  const VersionRequest& usual = change.catalogue().usual(installed.id);
  if (!usual.matches(installed.version)) result["pinned"] = usual.text();
  return result;
}

json remove_plugin(const SearchPaths& paths, std::string_view asked) {
  const auto [name, version] = split_name(asked);
  const VersionRequest request(version);
  const Change change(paths);
  const Catalogue& catalogue = change.catalogue();
  const std::vector<const Installed*> called = find_called(catalogue, name);
  std::vector<const Installed*> meant;
  for (const Installed* installed : called)
    if (paths.roots[installed->root].path == change.own() &&
        (version.empty() || request.matches(installed->version)))
      meant.push_back(installed);
  if (meant.empty())
    fail(WEFT_NOT_FOUND, "{} is not in your own folder of plugins, {}. Found: {}", printable(asked),
         change.own().string(), versions_text(called));
  if (meant.size() > 1)
    fail(WEFT_INVALID_ARGUMENT, "{} means several versions: {}; name one, as in {}@={}", printable(asked),
         versions_text(meant), meant[0]->id, meant[0]->version);
  const Installed& removed = *meant[0];
  catalogue.pins.require_usable();
  const auto pin = catalogue.pins.by_id.find(removed.id);
  if (pin != catalogue.pins.by_id.end() && pin->second.matches(removed.version) &&
      newest_of(catalogue, removed.id, pin->second, &removed) == nullptr)
    fail(WEFT_FAILED_PRECONDITION,
         "{0} is pinned to version {1}, which only {2} is; `weft plugins unpin {0}`", removed.id,
         pin->second.text(), removed.version);
  const fs::path versions = removed.folder.parent_path();
  {
    const Temporary temporary(change.own());
    rename_folder(removed.folder, temporary.path() / removed.version);
    sync_folder(versions);
  }
  std::error_code ignored;
  fs::remove(versions, ignored);  // fails where it has other versions
  return description(removed);
}

json pin_plugin(const SearchPaths& paths, std::string_view asked) {
  const auto [name, version] = split_name(asked);
  if (version.empty())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" names no version; write {}@1.0.0", printable(asked), printable(name));
  const VersionRequest request(version);
  const Change change(paths);
  const std::vector<const Installed*> called = find_called(change.catalogue(), name);
  const std::string& id = called.front()->id;
  const Installed* const meant = newest_of(change.catalogue(), id, request);
  if (meant == nullptr)
    fail(WEFT_NOT_FOUND, "{} is not installed in version {}. Found: {}", id, request.text(),
         versions_text(called));
  Pins pins = change.catalogue().pins;
  pins.require_usable();
  pins.by_id[id] = request;
  write_pins(pins);
  return {{"id", id}, {"pinned", request.text()}, {"version", meant->version}};
}

json unpin_plugin(const SearchPaths& paths, std::string_view name) {
  const Change change(paths);
  Pins pins = change.catalogue().pins;
  pins.require_usable();
  // A plugin that is pinned may not be installed any more.
  const std::string id =
      pins.by_id.contains(name) ? std::string(name) : find_called(change.catalogue(), name)[0]->id;
  const auto pin = pins.by_id.find(id);
  if (pin == pins.by_id.end()) {
    std::vector<std::string> pinned;
    for (const auto& [other, request] : pins.by_id)
      pinned.push_back(fmt::format("{}@{}", other, request.text()));
    fail(WEFT_NOT_FOUND, "\"{}\" is not pinned. Pinned: {}", printable(name),
         pinned.empty() ? "nothing" : fmt::format("{}", fmt::join(pinned, ", ")));
  }
  const std::string was = pin->second.text();
  pins.by_id.erase(pin);
  write_pins(pins);
  return {{"id", id}, {"pinned", was}};
}

}  // namespace weft::host
