#include "contract/scratch.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace weft::contract {

Scratch::Scratch() : process_(getpid()) {
  std::string pattern = (std::filesystem::temp_directory_path() / "weft-validate-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    fail(WEFT_UNAVAILABLE, "cannot make a folder for the checks, {}: {}; set TMPDIR to a folder that exists",
         pattern, std::strerror(errno));
  folder_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (getpid() == process_) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace weft::contract
