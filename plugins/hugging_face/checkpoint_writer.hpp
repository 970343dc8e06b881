// Writes a checkpoint: all files planned and their space reserved at once, boxes in any order, one commit.
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
  bool shard = false;                   // a folder with shards and an index
  uint64_t size_per_shard = 1024;       // in MB of 2^20 bytes
  std::string prefix;                   // see names.hpp; for folders only
  std::optional<bool> use_safetensors;  // absent: what the file's extension says, safetensors for a folder
  Metadata metadata;
};

// Which files hold which entries: greedy in the order of the entries, at most `limit_bytes` each unless one
// tensor alone is larger. At least one shard.
std::vector<std::vector<std::size_t>> plan_shards(const std::vector<TensorEntry>& entries,
                                                  uint64_t limit_bytes);

class CheckpointWriter {
 public:
  // A path that is no folder and ends in .safetensors, .bin, .pt or .pth is a file; any other is a folder,
  // which is made if it is missing. Errors: INVALID_ARGUMENT for duplicate names and contradictory options,
  // RESOURCE_EXHAUSTED when the disk is full, UNAVAILABLE while another save to the same place is under way.
  CheckpointWriter(std::string path, WriteOptions options, std::vector<TensorEntry> entries);
  // Removes what was written unless it was committed.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;

  // Safe from several threads.
  void write(uint64_t index, const int64_t* offset, const int64_t* extent, const void* source,
             uint64_t size_bytes);
  // Errors: FAILED_PRECONDITION naming the first box that was never written.
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
