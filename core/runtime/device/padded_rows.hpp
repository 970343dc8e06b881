// Matrices whose row stride (leading dimension) is padded to a multiple of 64 elements. Tensor cores need
// rows that begin at multiples of 16 bytes; for other strides the matrix libraries of devices fall back to
// kernels that are several times as slow. A vocabulary is the one large dimension that often is no such
// multiple, such as 50257.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::device {

// Returns whether a matrix product is faster if an operand or result with rows of `columns` elements, of the
// dtype and on the device of `x`, is padded: in half precision on a device, with 1024 columns or more.
bool gains_by_padding(const at::Tensor& x, int64_t columns);

// Returns (rows, columns) of uninitialised memory, with padding after each row. with_padding() has the whole.
at::Tensor empty_with_padding(int64_t rows, int64_t columns, const at::TensorOptions& options);

// Returns `x` (rows, columns) with the padding after its rows: (rows, columns + padding). It is x's own
// memory if x is a whole result of empty_with_padding(), whose padding is then what it was; otherwise a copy,
// whose padding is zero.
at::Tensor with_padding(const at::Tensor& x);

// Returns `x` (rows, ...) with rows of zeros after the last, up to a multiple of 64.
at::Tensor with_rows_of_zeros(const at::Tensor& x);

}  // namespace weft::device
