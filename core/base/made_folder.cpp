#include "base/made_folder.hpp"

#include <unistd.h>

#include "base/text.hpp"

namespace weft {

namespace fs = std::filesystem;

MadeFolder::MadeFolder(const fs::path& path) : process_(::getpid()) {
  std::error_code error;
  for (fs::path missing = path; !missing.empty() && !fs::exists(missing, error);
       missing = missing.parent_path())
    made_.push_back(missing);
  fs::create_directories(path, error);
  if (!error) return;
  remove();
  fail(WEFT_UNAVAILABLE, "cannot create {}: {}", printable(path.native()), error.message());
}

MadeFolder::~MadeFolder() {
  if (process_ == ::getpid()) remove();
}

void MadeFolder::remove() const {
  for (const fs::path& folder : made_) ::rmdir(folder.c_str());  // fails where it is not empty
}

}  // namespace weft
