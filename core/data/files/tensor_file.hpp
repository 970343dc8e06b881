// The tensors of a file, read row by row: what a data set needs from a checkpoint format.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"

namespace weft::data {

// A file that stays open for the lifetime of this object.
class TensorFile {
 public:
  struct Entry {
    std::string name;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> shape;
  };
  virtual ~TensorFile() = default;
  virtual const std::vector<Entry>& entries() const = 0;
  // Reads rows [first_row, first_row + rows.size(0)) of an entry into `rows`, a contiguous CPU tensor with
  // the entry's dtype and, from the second dimension on, its shape. Safe from several threads.
  virtual void read_rows(size_t entry, int64_t first_row, const at::Tensor& rows) const = 0;
};

// Opens `path` with the checkpoint format that recognises it. Throws NOT_FOUND or DATA_LOSS naming the path.
std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);

// Returns a data set of the tensors in `file`. `path` is its name in errors. Throws INVALID_ARGUMENT for an
// id that is outside the vocabulary of its field.
std::shared_ptr<Dataset> tensors(std::unique_ptr<TensorFile> file, const std::string& path,
                                 const std::vector<Vocabulary>& vocabularies);

}  // namespace weft::data
