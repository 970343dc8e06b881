// Check the arguments of a collective before anything is sent. All throw INVALID_ARGUMENT. The message begins
// with `who`: "communicator \"all\": rank 0 of 2: all_gather".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft::comm {

// The tensor must be defined, in host memory or on the device, strided and contiguous, and must not require
// grad.
void check_tensor(const std::string& who, const char* what, const at::Tensor& tensor);
void check_same_dtype(const std::string& who, const at::Tensor& output, const at::Tensor& input);
void check_rank(const std::string& who, const char* what, int64_t rank, int size);
// `large` must have `size` times the elements of `small`.
void check_parts(const std::string& who, const char* large_name, const at::Tensor& large,
                 const char* small_name, const at::Tensor& small, int size);
// `inner` must either not overlap `outer` or be exactly its part number `part`.
void check_place(const std::string& who, const at::Tensor& outer, const char* inner_name,
                 const at::Tensor& inner, int part);
void check_apart(const std::string& who, const at::Tensor& output, const at::Tensor& input);
// Returns the splits: one for each rank, none negative, whose sum is the first dimension of `tensor`. If
// `splits` is empty, returns equal ones.
std::vector<int64_t> check_splits(const std::string& who, const char* what, std::vector<int64_t> splits,
                                  const at::Tensor& tensor, int size);
int64_t elements_per_row(const at::Tensor& tensor);

}  // namespace weft::comm
