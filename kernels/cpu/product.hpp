// Matrix products. libtorch takes MKL for them, which on processors of other makers than Intel runs its
// second best code: there oneDNN's, which libtorch has too, are 5 to 10 % faster (measured on AMD Zen 4, with
// AVX2 and with AVX-512). With few rows, as in generation, both copy the matrix first: few_rows.hpp does not.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::kernels {

// a bᵀ + bias. a: (M, K), b: (N, K), of any strides; bias: (N) or undefined -> (M, N), contiguous. Has no
// gradient.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// a bᵀ + added, which is (M, N) and contiguous; it is read as the product is written. Has no gradient.
at::Tensor product_added_to(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b);

// aᵀ b, the gradient of a weight. a: (K, M), b: (K, N), contiguous -> (M, N), contiguous. Has no gradient.
at::Tensor product_over_rows(const at::Tensor& a, const at::Tensor& b);

// True where product() is more than at::addmm: a layer may then save itself a node of the graph of its own.
bool has_fast_product(const at::Tensor& a);

// True if this processor's faster products are oneDNN's. The same on all threads, for the life of the
// process.
bool prefers_onednn();

}  // namespace weft::kernels
