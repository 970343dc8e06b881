// Replaces a folder's checkpoint atomically. One rename is atomic, several are not, so a journal of all
// changes is written and synced first. From then on readers see the new checkpoint, partly under temporary
// names, and the next save completes the renames that a killed process left undone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "names.hpp"

namespace weft::hugging_face {

struct Changes {
  struct Removal {
    std::string name;
    uint64_t inode;  // a file with this name but another inode or time is a newer one, and stays
    int64_t modified_ns;
  };

  std::string prefix;  // of the checkpoint
  // Names whose temporary files are complete. The last one is the file that readers open.
  std::vector<std::string> install;
  std::vector<Removal> remove;
};

// Returns the changes that install these files and remove all other files of the checkpoint with this prefix,
// in both formats.
Changes plan_changes(const std::string& folder, const std::string& prefix, std::vector<std::string> install);

// Writes the journal and syncs it. From then on the changes are decided.
void write_journal(const std::string& folder, const Changes& changes);

// Applies the changes in order, at most `max_steps` of them; may run again after a crash at any step. Returns
// true when all are applied; then it has synced the folder and removed the journal.
bool apply_changes(const std::string& folder, const Changes& changes, uint64_t max_steps = UINT64_MAX);

// Completes a commit with this prefix that another process began. Does nothing without a journal.
void finish_commit(const std::string& folder, const std::string& prefix);

// The files of a folder as they are after all decided commits.
class FolderView {
 public:
  // Throws NOT_FOUND, and DATA_LOSS for a damaged journal.
  explicit FolderView(std::string folder);

  const std::vector<std::string>& names() const { return names_; }
  // Returns the current path of the file with this name.
  std::string path(const std::string& name) const;

 private:
  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::string> pending_;  // listed in a journal: can still have their temporary names
};

}  // namespace weft::hugging_face
