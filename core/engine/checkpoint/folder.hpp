// Folders that appear whole: written beside their place under a temporary name, synced, then put there in one
// step.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace weft::checkpoint {

class StagedFolder {
 public:
  // Throws if no folder could be put at `path`, and says why: to be asked before a long job, not at its end.
  static void check(const std::filesystem::path& path);

  // Makes the temporary folder. What an existing folder at `path` holds and `keep` admits by name goes
  // along, folders too (hard links). Temporary folders of saves that were killed are removed.
  StagedFolder(const std::filesystem::path& path,
               const std::function<bool(const std::filesystem::path& name)>& keep);
  ~StagedFolder();  // removes the temporary folder if publish() was not reached, afterwards what was replaced
  StagedFolder(const StagedFolder&) = delete;

  const std::filesystem::path& path() const { return staging_; }
  // Syncs everything and puts the folder in its place; what stood there goes away only now.
  void publish();

 private:
  void make_staging();
  std::filesystem::path target_, staging_;
  int lock_ = -1;  // of the temporary folder, held while this process lives
};

// Writes a small file and syncs it. Throws naming the path and the cause.
void write_file(const std::filesystem::path& path, const std::string& text);
// The same under a temporary name, renamed when whole.
void replace_file(const std::filesystem::path& path, const std::string& text);

// True for names of weight files that a save with this prefix replaces, in any format and sharding.
bool is_weight_file(const std::string& name, const std::string& prefix);

}  // namespace weft::checkpoint
