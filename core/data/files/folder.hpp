// Folders that appear whole: written beside their place under a temporary name, synced, then put there in one
// step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "files/folder_lock.hpp"

namespace weft::checkpoint {

class StagedFolder {
 public:
  // Tries to save to `path`: writes a temporary folder beside it and removes the folder again. Returns the
  // lock that keeps other jobs from saving there. Call it before a long job, so that a place that cannot be
  // written to is not an error of its last step. Throws the errors of the constructor.
  static FolderLock reserve(const std::filesystem::path& path);

  // Makes the temporary folder, and links into it the files and folders of an existing folder at `path` whose
  // names `keep` accepts. Removes what killed saves left beside `path` and in it. Throws INVALID_ARGUMENT or
  // ALREADY_EXISTS if `path` is not a folder that can be replaced, NOT_FOUND if it is a link to nothing,
  // UNAVAILABLE if another job saves there (FolderLock) or nothing can be written, RESOURCE_EXHAUSTED on a
  // full disk.
  StagedFolder(const std::filesystem::path& path,
               const std::function<bool(const std::filesystem::path& name)>& keep);
  // The destructor removes the temporary folder if publish() was not reached, afterwards what was replaced.

  const std::filesystem::path& path() const { return staging_->path(); }
  // Links the files and folders of another folder into it, in place of files of the same names.
  void link(const std::filesystem::path& folder);
  // Syncs everything and puts the folder in its place; what stood there goes away only now.
  void publish();

 private:
  // A temporary folder beside `target`. Its destructor removes what has this name then.
  class Staging {
   public:
    explicit Staging(const std::filesystem::path& target);
    ~Staging();
    Staging(const Staging&) = delete;
    const std::filesystem::path& path() const { return path_; }

   private:
    std::filesystem::path path_;
  };
  void link_entries(const std::filesystem::path& folder,
                    const std::function<bool(const std::filesystem::path& name)>& accepts);
  void link_kept(const std::function<bool(const std::filesystem::path& name)>& keep);

  std::filesystem::path target_;
  FolderLock lock_;
  FolderLock::Save save_;
  std::optional<Staging> staging_;  // the last member: removed while the save still holds the place
};

// Writes a small file, in place of a file or link of that name, and syncs it. Throws naming the path and the
// cause; RESOURCE_EXHAUSTED if it would be longer than `max_bytes`, which is what its readers accept.
void write_file(const std::filesystem::path& path, const std::string& text, uint64_t max_bytes = UINT64_MAX);
// Makes `path` a link to `target`, in place of a link of that name, in one step. Throws ALREADY_EXISTS if
// something else has the name, UNAVAILABLE if it cannot be made.
void replace_link(const std::filesystem::path& path, const std::filesystem::path& target);
// Removes a folder that a save made. It goes away in one step: never is a part of it there under its name.
// Throws UNAVAILABLE if another process saves there, or if it cannot be removed.
void remove_folder(const std::filesystem::path& path);
// Replaces a file (base/replaced_file.hpp). Throws UNAVAILABLE if another process saves there.
void replace_file(const std::filesystem::path& path, const std::string& text);

}  // namespace weft::checkpoint
