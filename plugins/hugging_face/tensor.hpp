// Descriptions of tensors in files: name, element type, shape, and position of the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

namespace weft::hugging_face {

class CheckedBytes;

struct ElementType {
  uint32_t code;             // WEFT_F32 ...
  std::string_view name;     // in safetensors, "F32"
  std::string_view storage;  // the storage class in torch's pickles, "FloatStorage"
  uint32_t size_bytes;
  int order;  // the safetensors library sorts tensors by this value, largest first
};

// Return the element type with this code or name, or null if there is none.
const ElementType* find_element_type(uint32_t code);
const ElementType* find_element_type_by_name(std::string_view name);
const ElementType* find_element_type_by_storage(std::string_view storage);

struct TensorEntry {
  std::string name;
  const ElementType* type = nullptr;
  std::vector<int64_t> shape;
};

// A tensor inside a mapped file.
struct StoredTensor : TensorEntry {
  std::vector<int64_t> strides;  // in bytes, never negative
  const std::byte* data = nullptr;
  std::shared_ptr<const CheckedBytes> checked;  // the bytes that it lies in; null without a checksum
};

// Returns a shape as text: "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

// Computes the size of a tensor in bytes. Returns false if a dimension is negative or the size exceeds int64.
[[nodiscard]] bool tensor_bytes(const std::vector<int64_t>& shape, uint32_t element_bytes, uint64_t& bytes);

// Returns the size in bytes of an entry that was validated.
uint64_t size_bytes(const TensorEntry& entry);

// Returns row-major strides in bytes.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape, uint32_t element_bytes);

}  // namespace weft::hugging_face
