// Reads a checkpoint of one or more files: a file of weights, an index, or a folder.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "safetensors.hpp"

namespace weft::hugging_face {

// Returns whether `path` has this format, judged by file names and first bytes.
bool recognises(const std::string& path) noexcept;

class CheckpointReader {
 public:
  // Opens a checkpoint. In a folder it looks for one index or one file of weights: first a name without a
  // prefix, then one with a prefix; first safetensors, then torch's format. Throws NOT_FOUND naming what it
  // looked for, or a missing shard and the index that lists it; INVALID_ARGUMENT if a folder has several
  // checkpoints; and the errors of open_safetensors() and open_torch_file().
  explicit CheckpointReader(const std::string& path);

  uint64_t num_tensors() const { return tensors_.size(); }
  // Throws OUT_OF_RANGE.
  const StoredTensor& tensor(uint64_t index) const;
  // Copies a box into `destination`, contiguous in row-major order. Safe from several threads. Throws
  // INVALID_ARGUMENT for a box outside the tensor, and DATA_LOSS if the file has been truncated since it was
  // opened or if the checksum of a tensor in a torch file differs; it is compared once, at the first read.
  void read(uint64_t index, const int64_t* offset, const int64_t* extent, void* destination,
            uint64_t size_bytes) const;
  // Returns the value of a metadata key, or null if no file has it.
  const std::string* metadata(const std::string& key) const;

 private:
  void open_file(const std::string& path);
  void open_folder(const std::string& folder);
  void open_index(const std::string& folder, const std::string& name);
  void open_shards(const std::string& folder, const std::string& index_path, Bytes index_bytes);

  struct Place {
    const StoredTensor* tensor;
    const MappedFile* file;
  };

  std::deque<WeightFile> files_;  // which stay where they are
  std::vector<Place> tensors_;
};

}  // namespace weft::hugging_face
