// Checkpoint formats, which are plugins, as C++ objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint_io.h"

namespace weft::checkpoint {

struct Entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  int64_t numel() const;
};

// True if the format recognises this file or folder.
bool recognises(const std::string& path);

// An open checkpoint. Reading is safe from several threads.
class Reader {
 public:
  explicit Reader(const std::string& path);  // throws what the format says
  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& path() const { return path_; }
  std::optional<size_t> find(const std::string& name) const;
  std::optional<std::string> metadata(const std::string& key) const;
  // The whole tensor, in its own dtype.
  at::Tensor read(size_t index) const;
  // Elements [begin, begin + destination.numel()) of the flattened tensor, cast to the destination's dtype.
  void read_range(size_t index, int64_t begin, const at::Tensor& destination) const;
  // Rows [begin, begin + count) of the first dimension.
  at::Tensor read_rows(size_t index, int64_t begin, int64_t count) const;

 private:
  void read_box(size_t index, const std::vector<int64_t>& offset, const std::vector<int64_t>& extent,
                const at::Tensor& to) const;
  const weft_checkpoint_io* io_;
  std::string path_;
  std::unique_ptr<weft_checkpoint_reader, void (*)(weft_checkpoint_reader*)> reader_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_;
};

struct WriteOptions {
  bool shard = false;
  std::string prefix;
  int64_t size_per_shard = 1024;  // MB
  bool use_safetensors = true;
  std::map<std::string, std::string> metadata;
};

// Files under way: nothing appears before commit().
class Writer {
 public:
  Writer(const std::string& path, const WriteOptions& options, const std::vector<Entry>& entries);
  ~Writer();
  Writer(const Writer&) = delete;
  // Elements [begin, begin + values.numel()) of the flattened tensor; cast to the entry's dtype.
  void write(size_t index, int64_t begin, const at::Tensor& values);
  void commit();

 private:
  const weft_checkpoint_io* io_;
  weft_checkpoint_writer* writer_ = nullptr;
  std::vector<Entry> entries_;
  std::string path_;
};

// The boxes of a row-major tensor of `shape` that cover the flat range [begin, begin + count), in order.
struct Box {
  std::vector<int64_t> offset, extent;
  int64_t begin = 0;  // of the box within the range
};
std::vector<Box> boxes_of_range(const std::vector<int64_t>& shape, int64_t begin, int64_t count);

}  // namespace weft::checkpoint
