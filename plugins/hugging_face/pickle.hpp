// The pickles of torch.save: read by an unpickler that knows tensors and plain containers and runs nothing,
// written as the smallest state dict that torch.load(weights_only=True) takes.
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
  int64_t storage_elements = 0;  // what the pickle says the record holds
  int64_t storage_offset = 0;    // in elements
  std::vector<int64_t> strides;  // in elements
};

// `path` is for messages. Errors: PERMISSION_DENIED naming the global for anything that a state dict of
// tensors does not need ("os.system"); DATA_LOSS for a pickle that is damaged, holds something else than
// tensors by name, or is too large.
std::vector<PickledTensor> read_state_dict(Bytes pickle, const std::string& path);

// Entry i becomes a contiguous tensor with a storage of its own, whose key is i.
std::string write_state_dict(const std::vector<TensorEntry>& entries);

}  // namespace weft::hugging_face
