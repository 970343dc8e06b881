// Folders that appear whole: written beside their place under a temporary name, synced, then put there in one step.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace weft::checkpoint {

class StagedFolder {
 public:
  // Makes the temporary folder. What an existing folder at `path` holds and `keep` admits by name goes
  // along, folders too (hard links).
  StagedFolder(const std::filesystem::path& path, const std::function<bool(const std::filesystem::path& name)>& keep);
  ~StagedFolder();  // removes the temporary folder if publish() was not reached
  StagedFolder(const StagedFolder&) = delete;

  const std::filesystem::path& path() const { return staging_; }
  // Syncs everything and puts the folder in its place; what stood there goes away only now.
  void publish();

 private:
  std::filesystem::path target_, staging_;
};

// Writes a small file and syncs it. Throws naming the path and the cause.
void write_file(const std::filesystem::path& path, const std::string& text);
// The same under a temporary name, renamed when whole.
void replace_file(const std::filesystem::path& path, const std::string& text);

// True for names of weight files of any save, which a new save replaces.
bool is_weight_file(const std::string& name);

}  // namespace weft::checkpoint
