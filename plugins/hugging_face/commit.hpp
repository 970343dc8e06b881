// The moment when a folder's old checkpoint becomes the new one. One rename is atomic, several are not: a
// journal makes them so. It is written and synced first; from then on readers see the new checkpoint, under
// temporary names where a rename is still due, and the next save finishes what a killed process left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "names.hpp"

namespace weft::hugging_face {

struct Changes {
  struct Removal {
    std::string name;
    uint64_t inode;  // a file that has the name but another inode or time is not the one that was meant
    int64_t modified_ns;
  };

  std::string prefix;  // of the checkpoint
  std::vector<std::string>
      install;  // names whose temporary files are complete; last the one that readers open
  std::vector<Removal> remove;
};

// What of a checkpoint with this prefix `install` replaces: every other file of it, in both formats.
Changes plan_changes(const std::string& folder, const std::string& prefix, std::vector<std::string> install);

// Makes the decision durable.
void write_journal(const std::string& folder, const Changes& changes);

// Carries out the changes in order, at most `max_steps` of them, and may begin anew after a crash at any
// step. True when all are done; then the folder is synced and the journal gone.
bool apply_changes(const std::string& folder, const Changes& changes, uint64_t max_steps = UINT64_MAX);

// Finishes a commit with this prefix that a process began and did not end; nothing to do without a journal.
void finish_commit(const std::string& folder, const std::string& prefix);

// A folder as it is after the commits that were decided.
class FolderView {
 public:
  // Errors: NOT_FOUND, and DATA_LOSS for a damaged journal.
  explicit FolderView(std::string folder);

  const std::vector<std::string>& names() const { return names_; }
  // Where the file of this name lies now.
  std::string path(const std::string& name) const;

 private:
  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::string> pending_;  // installed by a journal: maybe still under their temporary names
};

}  // namespace weft::hugging_face
