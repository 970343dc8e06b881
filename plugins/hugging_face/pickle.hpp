// Reads and writes the pickles of torch.save. The unpickler knows tensors and plain containers and runs no
// code; the pickler writes a state dict that torch.load(weights_only=True) accepts.
// https://docs.python.org/3/library/pickletools.html
#pragma once

#include <string>
#include <vector>

#include "file.hpp"
#include "tensor.hpp"

namespace weft::hugging_face {

// A tensor of a state dict: a strided view of a storage, which is a record of the archive.
struct PickledTensor {
  TensorEntry entry;
  std::string storage;           // key of the record
  int64_t storage_elements = 0;  // the size of the record according to the pickle
  int64_t storage_offset = 0;    // in elements
  std::vector<int64_t> strides;  // in elements
};

// Returns the tensors of a state dict. `path` is for messages. Throws PERMISSION_DENIED naming any global
// that a state dict of tensors does not need ("os.system"), and DATA_LOSS for a pickle that is damaged, is
// not a dict of tensors by name, or is too large.
std::vector<PickledTensor> read_state_dict(Bytes pickle, const std::string& path);

// Returns the pickle of a state dict. Entry i becomes a contiguous tensor with its own storage, whose key is
// i.
std::string write_state_dict(const std::vector<TensorEntry>& entries);

}  // namespace weft::hugging_face
