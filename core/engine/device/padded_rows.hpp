// Matrices whose rows are a multiple of 64 elements apart. The matrix units of devices read and write rows at
// multiples of 16 bytes; elsewhere libraries take kernels that are several times as slow. A vocabulary is the
// only long dimension that is often no such multiple, for example 50257.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::device {

// Returns whether products whose result, or factor, has rows of `columns` elements of this tensor's dtype and
// device gain by padding: half precision on a device, and many columns.
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
