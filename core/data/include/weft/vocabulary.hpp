// The token ids that a field of a batch can hold.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// The vocabulary of one field.
struct Vocabulary {
  std::string field;
  int64_t size = 0;  // the ids are 0 to size - 1
};

}  // namespace weft
