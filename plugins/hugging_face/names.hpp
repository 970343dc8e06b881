// The file names of Hugging Face folders, with Colossal-AI's prefix: "model.safetensors" with prefix "ema" is
// "model.ema.safetensors", its shards "model.ema-00001-of-00002.safetensors", its index
// "model.safetensors.index.ema.json".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::hugging_face {

struct FileNames {
  std::string prefix;  // empty for none
  bool safetensors = true;

  std::string single() const;
  std::string index() const;
  // `number` counts from 1.
  std::string shard(uint64_t number, uint64_t count) const;
  // True for a single file, an index or a shard of this prefix in either format.
  bool owns(std::string_view name) const;
};

// Errors: INVALID_ARGUMENT if it cannot be a part of a file name.
void check_prefix(const std::string& prefix);

// The files of a folder that a checkpoint can be opened by, of one format.
struct Candidates {
  std::vector<std::string> plain;     // without prefix
  std::vector<std::string> prefixed;  // with any
};
Candidates find_candidates(const std::vector<std::string>& names, bool safetensors);

// "index.json" files are recognised by name: *.index.json, *.index.PREFIX.json.
bool is_index_name(std::string_view name);

}  // namespace weft::hugging_face
