// Tensors of a file by name, read by rows: what a data set needs of a checkpoint format.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"

namespace weft::data {

// Open for as long as it lives.
class TensorFile {
 public:
  struct Entry {
    std::string name;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> shape;
  };
  virtual ~TensorFile() = default;
  virtual const std::vector<Entry>& entries() const = 0;
  // Rows [first_row, first_row + rows.size(0)) of an entry, along its first dimension, into `rows`:
  // contiguous, on the CPU, of the entry's dtype and of its shape but for the first dimension. Safe from
  // several threads.
  virtual void read_rows(size_t entry, int64_t first_row, const at::Tensor& rows) const = 0;
};

// By the checkpoint format that recognises `path`. Throws NOT_FOUND or DATA_LOSS with the path.
std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);

// Returns samples from the tensors of `file`, called `path` in errors. Checks the ids of each field that
// `vocabularies` names.
std::shared_ptr<Dataset> tensors(std::unique_ptr<TensorFile> file, const std::string& path,
                                 const std::vector<Vocabulary>& vocabularies);

}  // namespace weft::data
