// The ids that a field of a batch may hold.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// The vocabulary of one field.
struct Vocabulary {
  std::string field;
  int64_t size = 0;  // ids are 0 to size - 1
};

}  // namespace weft
