// Checkpoint formats, which are plugins, as C++ objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "box/box.hpp"
#include "weft/checkpoint_io.h"

namespace weft::checkpoint {

struct Entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  int64_t numel() const;
};

// Named tensors that are read by parts, wherever they lie. Reading is safe from several threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  const std::vector<Entry>& entries() const { return entries_; }
  std::optional<size_t> find(const std::string& name) const;
  // One box of a tensor into `destination`, which has the box's extent and any strides; casts.
  virtual void read(size_t index, const Box& box, const at::Tensor& destination) const = 0;
  at::Tensor read(size_t index) const;  // whole, in its own dtype
  // Elements [begin, begin + destination.numel()) of the flattened tensor, cast to the destination's dtype.
  void read_range(size_t index, int64_t begin, const at::Tensor& destination) const;

 protected:
  void add(Entry entry);

 private:
  std::vector<Entry> entries_;
  std::map<std::string, size_t> index_;
};

// Loads the format. Throws if there is none, or several defaults, as reading or writing would.
void require_format();

// True if the format recognises this file or folder.
bool recognises(const std::string& path);

// An open checkpoint.
class Reader final : public TensorSource {
 public:
  explicit Reader(const std::string& path);  // throws what the format says
  const std::string& path() const { return path_; }
  std::optional<std::string> metadata(const std::string& key) const;
  using TensorSource::read;
  void read(size_t index, const Box& box, const at::Tensor& destination) const override;

 private:
  const weft_checkpoint_io* io_;
  std::string path_;
  std::unique_ptr<weft_checkpoint_reader, void (*)(weft_checkpoint_reader*)> reader_;
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
  // One box of a tensor; cast to the entry's dtype.
  void write(size_t index, const Box& box, const at::Tensor& values);
  void commit();

 private:
  const weft_checkpoint_io* io_;
  weft_checkpoint_writer* writer_ = nullptr;
  std::vector<Entry> entries_;
  std::string path_;
};

}  // namespace weft::checkpoint
