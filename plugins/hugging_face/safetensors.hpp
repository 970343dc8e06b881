// The safetensors format: u64 length of the header, JSON header, tensors.
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

// True if the first bytes are those of a safetensors file.
bool looks_like_safetensors(Bytes bytes);

// Maps the file and validates its header; no tensor is touched.
// Errors: DATA_LOSS for every rule of the format that is broken, with file, tensor and values; UNIMPLEMENTED
// for an element type or a number of dimensions that Weft does not have.
WeightFile open_safetensors(MappedFile file);

// Plans a file for `entries`, ordered as the safetensors library orders them (element type, then name).
// Errors: INVALID_ARGUMENT for a name that is no UTF-8 or is "__metadata__".
FileLayout plan_safetensors(const std::vector<TensorEntry>& entries, const Metadata& metadata);

}  // namespace weft::hugging_face
