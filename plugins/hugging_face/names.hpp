// The file names in Hugging Face folders, with Colossal-AI's optional prefix. With prefix "ema",
// "model.safetensors" becomes "model.ema.safetensors", a shard is "model.ema-00001-of-00002.safetensors", and
// the index is "model.safetensors.index.ema.json".
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
  // Returns the name of a shard; `number` counts from 1.
  std::string shard(uint64_t number, uint64_t count) const;
  // Returns whether `name` is a single file, an index or a shard with this prefix, in either format.
  bool owns(std::string_view name) const;
};

// Throws INVALID_ARGUMENT if `prefix` cannot be part of a file name.
void check_prefix(const std::string& prefix);

// The files of a folder from which a checkpoint of one format can be opened.
struct Candidates {
  std::vector<std::string> plain;     // without prefix
  std::vector<std::string> prefixed;  // with any prefix
};
Candidates find_candidates(const std::vector<std::string>& names, bool safetensors);

// Returns whether `name` is that of an index: *.index.json or *.index.PREFIX.json.
bool is_index_name(std::string_view name);

}  // namespace weft::hugging_face
