// Folders, files and tensors for the tests of the format.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint_reader.hpp"
#include "checkpoint_writer.hpp"
#include "weft/error.hpp"

namespace weft::hugging_face::test {

namespace fs = std::filesystem;

// Removed with all it holds at the end.
class TemporaryFolder {
 public:
  enum Place {
    kOnDisk,
    kInMemory
  };  // in memory where the system has such a folder: nothing waits for a disk
  explicit TemporaryFolder(Place place = kOnDisk);
  ~TemporaryFolder();
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

void write_file(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);

// Sorted, hidden files included.
std::vector<std::string> file_names(const std::string& folder);

// The length field, the header as given, and the data.
std::string safetensors_bytes(const std::string& header, const std::string& data);

TensorEntry entry(const std::string& name, uint32_t code, std::vector<int64_t> shape);

// Bytes that differ from tensor to tensor and from seed to seed; 0 and 1 for BOOL.
std::string pattern(const TensorEntry& entry, unsigned seed = 0);

// Saves `entries` filled with pattern(seed).
void save(const std::string& path, const std::vector<TensorEntry>& entries, WriteOptions options = {},
          unsigned seed = 0);
void write_all(CheckpointWriter& writer, const std::vector<TensorEntry>& entries, unsigned seed = 0);

// Expects that the checkpoint holds exactly `entries` filled with pattern(seed).
void expect_holds(const std::string& path, const std::vector<TensorEntry>& entries, unsigned seed = 0);
std::string read_whole(const CheckpointReader& reader, uint64_t index);

// Expects a weft::Error with this status whose text contains all `parts`.
void expect_error(weft_status status, const std::vector<std::string>& parts,
                  const std::function<void()>& action);

// One tensor of every element type, an empty one, a scalar, and names that need escaping.
std::vector<TensorEntry> varied_entries();

}  // namespace weft::hugging_face::test
