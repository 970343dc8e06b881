// Folders that appear whole: written beside their place under a temporary name, synced, then put there in one
// step.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "checkpoint/folder_lock.hpp"

namespace weft::checkpoint {

class StagedFolder {
 public:
  // Tries whether a folder can be put at `path`, by one that is removed again, and keeps other jobs from
  // saving there until the returned lock ends. To be asked before a long job, not at its end. Throws what the
  // constructor throws.
  static FolderLock reserve(const std::filesystem::path& path);

  // Makes the temporary folder. What an existing folder at `path` holds and `keep` admits by name goes
  // along, folders too (hard links). What killed saves left beside `path` and in it is removed. Throws
  // INVALID_ARGUMENT or ALREADY_EXISTS where no folder can be replaced, UNAVAILABLE where another job saves
  // or nothing can be written, RESOURCE_EXHAUSTED on a full disk.
  StagedFolder(const std::filesystem::path& path,
               const std::function<bool(const std::filesystem::path& name)>& keep);
  ~StagedFolder();  // removes the temporary folder if publish() was not reached, afterwards what was replaced
  StagedFolder(const StagedFolder&) = delete;

  const std::filesystem::path& path() const { return staging_; }
  // Syncs everything and puts the folder in its place; what stood there goes away only now.
  void publish();

 private:
  void make_staging();
  void link_kept(const std::function<bool(const std::filesystem::path& name)>& keep);
  std::filesystem::path target_, staging_;
  FolderLock lock_;
};

// Writes a small file and syncs it. Throws naming the path and the cause.
void write_file(const std::filesystem::path& path, const std::string& text);
// The same under a temporary name, renamed when whole.
void replace_file(const std::filesystem::path& path, const std::string& text);

// True for names of weight files that a save with this prefix replaces, in any format and sharding.
bool is_weight_file(const std::string& name, const std::string& prefix);

}  // namespace weft::checkpoint
