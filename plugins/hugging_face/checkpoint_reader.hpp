// A checkpoint of one or more files, opened from a file, an index or a folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "safetensors.hpp"

namespace weft::hugging_face {

// True if `path` looks like this format: by names and first bytes.
bool recognises(const std::string& path) noexcept;

class CheckpointReader {
 public:
  // A folder is opened by its one index or single file: a plain name before one with a prefix, then
  // safetensors before torch's format. Errors: NOT_FOUND
  // names what was looked for, or the missing shard and the index that names it; INVALID_ARGUMENT when a
  // folder holds several checkpoints; DATA_LOSS and UNIMPLEMENTED as the formats say.
  explicit CheckpointReader(const std::string& path);

  uint64_t num_tensors() const { return tensors_.size(); }
  // Errors: OUT_OF_RANGE.
  const StoredTensor& tensor(uint64_t index) const;
  // Gathers a box into `destination`. Safe from several threads.
  void read(uint64_t index, const int64_t* offset, const int64_t* extent, void* destination,
            uint64_t size_bytes) const;
  // Null if no file has the key.
  const std::string* metadata(const std::string& key) const;

 private:
  void open_file(const std::string& path);
  void open_folder(const std::string& folder);
  void open_index(const std::string& folder, const std::string& name);
  void open_shards(const std::string& folder, const std::string& index_path, Bytes index_bytes);

  std::vector<WeightFile> files_;
  std::vector<const StoredTensor*> tensors_;
};

}  // namespace weft::hugging_face
