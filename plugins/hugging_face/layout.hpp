// The layout of one file: all bytes except those of the tensors, and where the tensors go.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace weft::hugging_face {

using Metadata = std::map<std::string, std::string>;

struct FileLayout {
  struct Region {
    uint64_t offset;
    std::string bytes;
  };
  // A CRC-32 of the range at `offset`, computed when all bytes are written, and the two offsets at which it
  // is stored (4 bytes, little-endian).
  struct Checksum {
    uint64_t offset, size;
    std::array<uint64_t, 2> stored_at;
  };

  std::vector<Region> regions;
  std::vector<uint64_t> tensor_offsets;  // in the order of the entries
  std::vector<Checksum> checksums;
  uint64_t size = 0;
};

}  // namespace weft::hugging_face
