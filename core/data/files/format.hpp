// Readers and writers of checkpoint formats, as C++ objects.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "box/box.hpp"
#include "files/formats.hpp"

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

// An open checkpoint.
class Reader final : public TensorSource {
 public:
  // Both throw what the format says. The first asks which format reads the path (find_format_of).
  explicit Reader(const std::string& path, const std::string& wanted = "");
  Reader(const std::string& path, const Format& format);
  const std::string& path() const { return path_; }
  std::optional<std::string> metadata(const std::string& key) const;
  using TensorSource::read;
  void read(size_t index, const Box& box, const at::Tensor& destination) const override;

 private:
  Reader(const std::string& path, const Format* found);

  const Format& format_;
  std::string path_, crash_;
  std::unique_ptr<weft_checkpoint_reader, void (*)(weft_checkpoint_reader*)> reader_;
};

struct WriteOptions {
  bool shard = false;
  std::string prefix;
  int64_t size_per_shard = 1024;  // MB
  bool use_safetensors = true;    // false asks for files of PyTorch
  std::map<std::string, std::string> metadata;
  std::string format;  // NAME or NAME@VERSION; empty: the default
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
  const Format& format_;
  weft_checkpoint_writer* writer_ = nullptr;
  std::vector<Entry> entries_;
  std::string path_, crash_;
};

}  // namespace weft::checkpoint
