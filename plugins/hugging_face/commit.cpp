#include "commit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "file.hpp"
#include "json.hpp"
#include "text.hpp"

namespace weft::hugging_face {
namespace {

constexpr std::string_view kJournalHead = ".weft-commit", kJournalTail = ".json";

std::string journal_name(const std::string& prefix) {
  return concat(kJournalHead, prefix.empty() ? "" : ".", prefix, kJournalTail);
}

std::string in(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

std::optional<Changes::Removal> identity(const std::string& folder, const std::string& name) {
  struct stat status {};
  if (lstat(in(folder, name).c_str(), &status) != 0) return std::nullopt;
  const int64_t modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return Changes::Removal{name, status.st_ino, modified_ns};
}

bool still_there(const std::string& folder, const Changes::Removal& removal) {
  const auto now = identity(folder, removal.name);
  return now && now->inode == removal.inode && now->modified_ns == removal.modified_ns;
}

bool exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    fail(WEFT_UNAVAILABLE, "cannot remove ", path, ": ", system_error(errno));
  }
}

std::vector<std::string> list_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator next(folder, error), end; !error && next != end;
       next.increment(error)) {
    names.push_back(next->path().filename().string());
  }
  if (error) fail(WEFT_NOT_FOUND, "cannot read the folder ", folder, ": ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Throws unless every file in a journal belongs to its checkpoint, because the journal is untrusted.
Changes read_journal(const std::string& folder, const std::string& prefix) {
  const MappedFile file(in(folder, journal_name(prefix)));
  const Json json = parse_json(as_text(file.bytes()), file.path());
  const FileNames names{prefix, true};
  Changes changes{prefix, {}, {}};
  try {
    for (const Json& name : json.at("install")) changes.install.push_back(name.get<std::string>());
    for (const Json& removal : json.at("remove")) {
      changes.remove.push_back({removal.at("name").get<std::string>(), removal.at("inode").get<uint64_t>(),
                                removal.at("modified_ns").get<int64_t>()});
    }
  } catch (const Json::exception& error) {
    fail(WEFT_DATA_LOSS, file.path(), " is no journal of a save: ", error.what());
  }
  bool owned = !changes.install.empty();
  for (const std::string& name : changes.install) owned = owned && names.owns(name);
  for (const Changes::Removal& removal : changes.remove) owned = owned && names.owns(removal.name);
  if (!owned) fail(WEFT_DATA_LOSS, file.path(), " is no journal of a save: it names files of something else");
  return changes;
}

}  // namespace

Changes plan_changes(const std::string& folder, const std::string& prefix, std::vector<std::string> install) {
  const FileNames names{prefix, true};
  Changes changes{prefix, std::move(install), {}};
  for (const std::string& name : list_folder(folder)) {
    const bool replaced =
        std::find(changes.install.begin(), changes.install.end(), name) != changes.install.end();
    if (!names.owns(name) || replaced) continue;
    if (const auto removal = identity(folder, name)) changes.remove.push_back(*removal);
  }
  return changes;
}

void write_journal(const std::string& folder, const Changes& changes) {
  Json json = {{"install", changes.install}, {"remove", Json::array()}};
  for (const Changes::Removal& removal : changes.remove) {
    json["remove"].push_back(
        {{"name", removal.name}, {"inode", removal.inode}, {"modified_ns", removal.modified_ns}});
  }
  const std::string text = json_text(json, 2), path = in(folder, journal_name(changes.prefix));
  OutputFile file(path, text.size());
  file.write(0, as_bytes(text));
  file.sync();
  install_file(path);
  file.release();
  sync_folder(folder);
}

bool apply_changes(const std::string& folder, const Changes& changes, uint64_t max_steps) {
  const auto step = [&] { return max_steps-- > 0; };
  const std::string primary = in(folder, changes.install.back());
  // Other programs do not read the journal. Removing the old index first keeps them from reading a mixture of
  // old and new files.
  if (changes.install.size() > 1 && exists(partial_path(primary))) {
    if (!step()) return false;
    remove_file(primary);
  }
  for (const Changes::Removal& removal : changes.remove) {
    if (!still_there(folder, removal)) continue;
    if (!step()) return false;
    remove_file(in(folder, removal.name));
  }
  for (const std::string& name : changes.install) {
    if (!step()) return false;
    install_file(in(folder, name), true);
  }
  sync_folder(folder);
  if (!step()) return false;
  remove_file(in(folder, journal_name(changes.prefix)));
  return true;
}

void finish_commit(const std::string& folder, const std::string& prefix) {
  if (!exists(in(folder, journal_name(prefix)))) return;
  apply_changes(folder, read_journal(folder, prefix));
}

FolderView::FolderView(std::string folder) : folder_(std::move(folder)) {
  const std::vector<std::string> found = list_folder(folder_);
  names_ = found;
  for (const std::string& name : found) {
    if (!name.starts_with(kJournalHead) || !name.ends_with(kJournalTail)) continue;
    std::string prefix =
        name.substr(kJournalHead.size(), name.size() - kJournalHead.size() - kJournalTail.size());
    if (prefix.starts_with('.')) prefix.erase(0, 1);
    const Changes changes = read_journal(folder_, prefix);
    for (const Changes::Removal& removal : changes.remove) {
      if (still_there(folder_, removal)) std::erase(names_, removal.name);
    }
    for (const std::string& installed : changes.install) {
      if (std::find(names_.begin(), names_.end(), installed) != names_.end()) continue;
      names_.push_back(installed);
    }
    pending_.insert(pending_.end(), changes.install.begin(), changes.install.end());
  }
}

std::string FolderView::path(const std::string& name) const {
  const std::string final_path = in(folder_, name);
  const bool is_pending = std::find(pending_.begin(), pending_.end(), name) != pending_.end();
  return is_pending && exists(partial_path(final_path)) ? partial_path(final_path) : final_path;
}

}  // namespace weft::hugging_face
