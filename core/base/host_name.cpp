#include "base/host_name.hpp"

#include <unistd.h>

namespace weft {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace weft
