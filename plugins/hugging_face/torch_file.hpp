// The format of pytorch_model.bin: the zip archive of torch.save (PyTorch 1.6 and later) with one state dict.
#pragma once

#include <vector>

#include "safetensors.hpp"

namespace weft::hugging_face {

// Unpickles the descriptions of the tensors in a mapped archive; reads no tensor. Throws the errors of
// read_zip() and read_state_dict(), and DATA_LOSS for a tensor that extends beyond its storage or a storage
// that is not in the archive.
WeightFile open_torch_file(MappedFile file);

// Plans an archive that torch.load(weights_only=True) reads. Metadata goes into a record that torch.load
// ignores.
FileLayout plan_torch_file(const std::vector<TensorEntry>& entries, const Metadata& metadata);

}  // namespace weft::hugging_face
