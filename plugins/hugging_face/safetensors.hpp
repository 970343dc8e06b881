// The safetensors format: the length of the header (u64), a JSON header, the tensors.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <vector>

#include "file.hpp"
#include "layout.hpp"
#include "tensor.hpp"

namespace weft::hugging_face {

struct WeightFile {
  MappedFile file;
  std::vector<StoredTensor> tensors;
  Metadata metadata;
};

// Returns whether the first bytes are those of a safetensors file.
bool looks_like_safetensors(Bytes bytes);

// Validates the header of a mapped file; reads no tensor. Throws DATA_LOSS with file, tensor and values if
// the file breaks a rule of the format, and UNIMPLEMENTED for an element type or a number of dimensions that
// Weft does not have.
WeightFile open_safetensors(MappedFile file);

// Plans a file for `entries` in the order of the safetensors library: by element type, then by name. Throws
// INVALID_ARGUMENT for a name that is not UTF-8 or is "__metadata__".
FileLayout plan_safetensors(const std::vector<TensorEntry>& entries, const Metadata& metadata);

}  // namespace weft::hugging_face
