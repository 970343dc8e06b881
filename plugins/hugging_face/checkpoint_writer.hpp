// Writes a checkpoint. The constructor plans all files and reserves their space, write() takes boxes in any
// order, and commit() makes the checkpoint visible.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "box.hpp"
#include "commit.hpp"
#include "file.hpp"
#include "layout.hpp"
#include "names.hpp"

namespace weft::hugging_face {

struct WriteOptions {
  bool shard = false;                   // write a folder with shards and an index
  uint64_t size_per_shard = 1024;       // in MiB
  std::string prefix;                   // see names.hpp; for folders only
  std::optional<bool> use_safetensors;  // default: by the file's extension; safetensors for a folder
  Metadata metadata;
};

// Distributes entries over shards and returns their indices: fills one shard after the other in the order of
// the entries, up to `limit_bytes` each. A tensor that is larger gets a shard of its own. Returns at least
// one shard.
std::vector<std::vector<std::size_t>> plan_shards(const std::vector<TensorEntry>& entries,
                                                  uint64_t limit_bytes);

class CheckpointWriter {
 public:
  // Creates the files under temporary names. A path that ends in .safetensors, .bin, .pt or .pth and is not
  // an existing folder is a file; any other path is a folder, which is created if it does not exist. Throws
  // INVALID_ARGUMENT for duplicate names and contradictory options, RESOURCE_EXHAUSTED if the disk is full,
  // and UNAVAILABLE while another save to the same path runs.
  CheckpointWriter(std::string path, WriteOptions options, std::vector<TensorEntry> entries);
  // Removes the files unless commit() succeeded.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Writes a box of entry `index` from `source`, contiguous in row-major order. Safe from several threads.
  void write(uint64_t index, const int64_t* offset, const int64_t* extent, const void* source,
             uint64_t size_bytes);
  // Syncs the files and gives them their names. Throws FAILED_PRECONDITION naming the first box that was
  // never written.
  void commit();

 private:
  struct Place {
    std::size_t file;
    uint64_t offset;
  };

  void resolve_path();
  void prepare_folder();
  void plan_single();
  void plan_sharded();
  void plan_file(const std::string& name, const std::vector<std::size_t>& indices);
  void create_files();
  void check_complete() const;
  void write_checksums();
  void remove_made_folders() noexcept;

  std::string path_;
  WriteOptions options_;
  std::vector<TensorEntry> entries_;

  bool is_folder_ = false;
  std::string folder_;
  std::string file_name_;  // of a single file
  FileNames names_;
  std::vector<std::string> made_folders_;
  std::unique_ptr<SaveLock> lock_;

  std::vector<std::string> file_names_;
  std::vector<FileLayout> layouts_;
  std::vector<OutputFile> files_;
  std::vector<Place> places_;  // per entry

  std::mutex mutex_;
  std::vector<Coverage> coverage_;  // per entry
  bool committed_ = false;
};

}  // namespace weft::hugging_face
