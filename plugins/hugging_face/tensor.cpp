#include "tensor.hpp"

#include <algorithm>
#include <iterator>

#include "text.hpp"

namespace weft::hugging_face {
namespace {

constexpr ElementType kElementTypes[] = {
    {WEFT_BOOL, "BOOL", "BoolStorage", 1, 0}, {WEFT_U8, "U8", "ByteStorage", 1, 1},
    {WEFT_I8, "I8", "CharStorage", 1, 2},     {WEFT_I16, "I16", "ShortStorage", 2, 3},
    {WEFT_F16, "F16", "HalfStorage", 2, 4},   {WEFT_BF16, "BF16", "BFloat16Storage", 2, 5},
    {WEFT_I32, "I32", "IntStorage", 4, 6},    {WEFT_F32, "F32", "FloatStorage", 4, 7},
    {WEFT_F64, "F64", "DoubleStorage", 8, 8}, {WEFT_I64, "I64", "LongStorage", 8, 9},
};

template <typename Matches>
const ElementType* find(Matches matches) {
  const auto* found = std::find_if(std::begin(kElementTypes), std::end(kElementTypes), matches);
  return found == std::end(kElementTypes) ? nullptr : found;
}

}  // namespace

const ElementType* find_element_type(uint32_t code) {
  return find([&](const ElementType& type) { return type.code == code; });
}

const ElementType* find_element_type_by_name(std::string_view name) {
  return find([&](const ElementType& type) { return type.name == name; });
}

const ElementType* find_element_type_by_storage(std::string_view storage) {
  return find([&](const ElementType& type) { return type.storage == storage; });
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (std::size_t dim = 0; dim < shape.size(); ++dim) out += concat(dim == 0 ? "" : ", ", shape[dim]);
  return out + "]";
}

bool tensor_bytes(const std::vector<int64_t>& shape, uint32_t element_bytes, uint64_t& bytes) {
  // Dimensions of size 0 count as 1 here, because the strides of an empty tensor must not overflow either.
  int64_t product = element_bytes;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0) return false;
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product)) return false;
  }
  bytes = empty ? 0 : static_cast<uint64_t>(product);
  return true;
}

uint64_t size_bytes(const TensorEntry& entry) {
  uint64_t bytes = 0;
  if (!tensor_bytes(entry.shape, entry.type->size_bytes, bytes)) {
    fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(entry.name), ": shape ", shape_text(entry.shape),
         " has a negative dimension or too many elements");
  }
  return bytes;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape, uint32_t element_bytes) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = element_bytes;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(shape[dim], 1);
  }
  return strides;
}

}  // namespace weft::hugging_face
