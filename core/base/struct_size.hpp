// Structs of the ABI that begin with struct_size. Who built the other side may know fewer members, or more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/text.hpp"
#include "weft/error.hpp"
#include "weft/macros.h"

namespace weft {

// All structs of the ABI are far smaller. A greater value is not a size.
constexpr uint64_t kLargestStruct = 1 << 16;
// The least struct_size of a struct that the host fills: one member more.
constexpr uint64_t kLeastFilled = sizeof(uint64_t) + 1;

// Returns true if `size` can be the struct_size of a struct whose member that ends at `least` is needed.
constexpr bool is_struct_size(uint64_t size, uint64_t least = kLeastFilled) {
  return size >= least && size <= kLargestStruct;
}

// Throws INVALID_ARGUMENT unless `size`, the struct_size of `what`, reaches to the end of the last member
// that is needed, `least`.
inline void require_size(const char* what, uint64_t size, uint64_t least = kLeastFilled) {
  if (is_struct_size(size, least)) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: struct_size is {}, must be at least {} and at most {}; set it to sizeof",
       what, size, least, kLargestStruct);
}

// Copies the members that both sides know from `from` to `out`, whose struct_size stays as it is. Throws
// INVALID_ARGUMENT naming `what` if that is no size.
template <class T>
void fill_out(const char* what, const T& from, T* out) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  require_size(what, out->struct_size);
  const uint64_t size = std::min<uint64_t>(out->struct_size, sizeof(T));
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(uint64_t),
              reinterpret_cast<const char*>(&from) + sizeof(uint64_t), size - sizeof(uint64_t));
}

// Returns what this side knows of `given`, whose members behind the end of its struct_size are zero. Throws
// INVALID_ARGUMENT naming `what` unless that reaches to `least`, the end of the last member that is needed.
template <class T>
T known_part(const char* what, const T& given, uint64_t least) {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  require_size(what, given.struct_size, least);
  T known = {};
  std::memcpy(&known, &given, std::min<uint64_t>(given.struct_size, sizeof(T)));
  return known;
}

}  // namespace weft
