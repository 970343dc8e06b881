// What a collective asks of its tensors and ranks, checked before anything is sent. `who` begins the message:
// "communicator \"all\": rank 0 of 2: all_gather". All throw INVALID_ARGUMENT.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft::comm {

// Defined, on the CPU, strided, contiguous, not requiring grad.
void check_tensor(const std::string& who, const char* what, const at::Tensor& tensor);
void check_same_dtype(const std::string& who, const at::Tensor& output, const at::Tensor& input);
void check_rank(const std::string& who, const char* what, int64_t rank, int size);
// `large` holds `size` times the elements of `small`.
void check_parts(const std::string& who, const char* large_name, const at::Tensor& large,
                 const char* small_name, const at::Tensor& small, int size);
// `inner` is apart from `outer` or exactly its part number `part`.
void check_place(const std::string& who, const at::Tensor& outer, const char* inner_name,
                 const at::Tensor& inner, int part);
void check_apart(const std::string& who, const at::Tensor& output, const at::Tensor& input);
// One split a rank, none negative, in sum the first dimension of `tensor`; equal parts when empty.
std::vector<int64_t> check_splits(const std::string& who, const char* what, std::vector<int64_t> splits,
                                  const at::Tensor& tensor, int size);
int64_t elements_per_row(const at::Tensor& tensor);

}  // namespace weft::comm
