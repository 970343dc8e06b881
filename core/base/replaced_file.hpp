// Files that take the place of others whole, so that a full disk or a killed process leaves what was there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

// A file that is written beside its place, under the name ".NAME.saving-1b2f09ac", and put there when it is
// complete. Links are followed first: what they lead to is replaced. What exists and is no regular file, such
// as a pipe, a terminal or /dev/null, is written directly, and so is a file that stdout or stderr of this
// process already writes.
//
// Errors are "NAMED: cannot write there: WHY" with the status RESOURCE_EXHAUSTED on a full disk and beyond a
// limit of file sizes or quotas, and UNAVAILABLE otherwise.
class ReplacedFile {
 public:
  // Creates the temporary file and removes those that killed processes left. `named` is what errors call the
  // file, such as "--picture s.svg"; by default the path.
  explicit ReplacedFile(const std::filesystem::path& path, std::string named = "");
  // Removes the temporary file if commit() has not put it in its place.
  ~ReplacedFile();
  ReplacedFile(ReplacedFile&& other) noexcept;
  ReplacedFile(const ReplacedFile&) = delete;

  // Gives the file these permissions, whatever the process's mask and the file that it replaces say.
  void restrict_to(mode_t mode) const;
  void write(std::string_view bytes);
  // Forces what was written to the disk, so that nothing but the new name is missing.
  void sync();
  // Syncs the file and gives it its name.
  void commit();

  // Throws the errors of the constructor, and changes nothing that exists. For verbs that write at their end.
  static void require_writable(const std::filesystem::path& path, const std::string& named);

 private:
  [[noreturn]] void refuse(int code) const;
  void open_directly(const std::filesystem::path& path);
  void create_temporary();
  void keep_owner() const;

  std::string named_;
  std::filesystem::path place_, temporary_;  // both empty: written directly
  int descriptor_ = -1;
};

// Replaces a file by one with this text.
void replace_file(const std::filesystem::path& path, std::string_view text, const std::string& named = "");

// Follows the links of `path`, also to a place where nothing exists yet. Throws UNAVAILABLE for a loop.
std::filesystem::path without_links(const std::filesystem::path& path);

}  // namespace weft
