#pragma once

#include <type_traits>

namespace weft::kernels {

// What numbers of type T are computed in.
template <typename T>
using Exact = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace weft::kernels
