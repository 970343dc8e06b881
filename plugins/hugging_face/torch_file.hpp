// pytorch_model.bin: the zip archive of torch.save (PyTorch 1.6 and later) with one state dict.
#pragma once

#include <vector>

#include "safetensors.hpp"

namespace weft::hugging_face {

// Maps the archive and unpickles its description of the tensors; no tensor is touched. Errors: those of
// read_zip and read_state_dict; DATA_LOSS for a tensor that leaves its storage, or a storage that the archive
// does not hold.
WeightFile open_torch_file(MappedFile file);

// Plans an archive that torch.load(weights_only=True) reads. Metadata goes into a record that torch.load
// passes over.
FileLayout plan_torch_file(const std::vector<TensorEntry>& entries, const Metadata& metadata);

}  // namespace weft::hugging_face
