// Tensors as a file sees them: a name, an element type, a shape, and where the bytes lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

namespace weft::hugging_face {

struct ElementType {
  uint32_t code;             // WEFT_F32 ...
  std::string_view name;     // in safetensors, "F32"
  std::string_view storage;  // the storage class in torch's pickles, "FloatStorage"
  uint32_t size_bytes;
  int order;  // safetensors sorts its tensors by it, largest first
};

// Null if there is none.
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
};

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

// The product of the shape and the element size; false if a dimension is negative or the product exceeds
// int64.
[[nodiscard]] bool tensor_bytes(const std::vector<int64_t>& shape, uint32_t element_bytes, uint64_t& bytes);

// Bytes of an entry that was validated.
uint64_t size_bytes(const TensorEntry& entry);

// Row-major strides in bytes.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape, uint32_t element_bytes);

}  // namespace weft::hugging_face
