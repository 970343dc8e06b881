// Tensors saved in parts: a file for each rank that has any, and index.json, which tells where every part
// lies: {"version": 1, "tensors": {NAME: {"dtype": "F32", "shape": [...], "parts": [{"file":
// "part-00000.safetensors", "entry": ..., "offset": [...], "extent": [...]}]}}}.
#pragma once

#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>

#include "files/piece.hpp"

namespace weft::checkpoint {

// The longest index that is read, and so the longest that is written.
inline constexpr uint64_t kLargestIndex = uint64_t{1} << 28;

// Every rank writes the pieces that it counts into a file of its own in `folder`, which all see; the master
// the index. Throws RESOURCE_EXHAUSTED if the index would have more than `max_index` bytes; tests pass fewer.
// Collective; throws on every rank alike.
void write_parts(const std::string& folder, const Communicator& ranks, const Pieces& pieces,
                 uint64_t max_index = kLargestIndex);

// Whole tensors in so many files of about the same size, by one process; holds one of them at a time.
void write_parts(const std::string& folder, int count, const TensorSource& source,
                 uint64_t max_index = kLargestIndex);

class PartsReader final : public TensorSource {
 public:
  // Reads and checks the index: the parts of a tensor hold each of its elements once. Files are opened as
  // they are needed. Throws DATA_LOSS for an index that is damaged, INVALID_ARGUMENT for one of more than 256
  // MB.
  explicit PartsReader(std::string folder);
  using TensorSource::read;
  void read(size_t index, const Box& box, const at::Tensor& destination) const override;

 private:
  struct Part {
    std::string file, entry;
    Box box;
  };
  void add_tensor(const std::string& path, const std::string& name, const nlohmann::json& described);
  const Reader& open(const std::string& file) const;

  std::string folder_;
  std::vector<std::vector<Part>> parts_;  // by tensor
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<Reader>> open_;
};

}  // namespace weft::checkpoint
