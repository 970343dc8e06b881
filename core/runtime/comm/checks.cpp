#include "comm/checks.hpp"

#include <ATen/ATen.h>

#include <numeric>

#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::comm {
namespace {

const char* address(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

bool are_apart(const at::Tensor& a, const at::Tensor& b) {
  return address(a) + a.nbytes() <= address(b) || address(b) + b.nbytes() <= address(a);
}

}  // namespace

void check_tensor(const std::string& who, const char* what, const at::Tensor& tensor) {
  if (!tensor.defined()) fail(WEFT_INVALID_ARGUMENT, "{}: {} is undefined", who, what);
  const device::Device& here = device::current();
  if (!device::is_on_host(tensor) && !here.holds(tensor)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: {} is on {}, must be on {}", who, what, tensor.device().str(),
         here.is_host() ? "the CPU" : "the CPU or " + here.name());
  }
  if (tensor.layout() != at::kStrided)
    fail(WEFT_INVALID_ARGUMENT, "{}: {} must be a dense tensor", who, what);
  if (!tensor.is_contiguous()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: {} of shape [{}] is not contiguous; pass a contiguous copy", who, what,
         fmt::join(tensor.sizes(), ", "));
  }
  if (tensor.requires_grad()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: {} requires grad; collectives record no gradient, pass its detach()",
         who, what);
  }
}

void check_same_dtype(const std::string& who, const at::Tensor& output, const at::Tensor& input) {
  if (output.scalar_type() == input.scalar_type()) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: output is {}, input is {}; they must be the same", who,
       at::toString(output.scalar_type()), at::toString(input.scalar_type()));
}

void check_rank(const std::string& who, const char* what, int64_t rank, int size) {
  if (rank >= 0 && rank < size) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: {} is {}, must be 0 to {}", who, what, rank, size - 1);
}

void check_parts(const std::string& who, const char* large_name, const at::Tensor& large,
                 const char* small_name, const at::Tensor& small, int size) {
  if (large.numel() == size * small.numel()) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: {} has {} elements, must have {} times the {} of {}", who, large_name,
       large.numel(), size, small.numel(), small_name);
}

void check_place(const std::string& who, const at::Tensor& outer, const char* inner_name,
                 const at::Tensor& inner, int part) {
  const auto offset = static_cast<int64_t>(part * inner.nbytes());
  if (are_apart(outer, inner) || address(inner) == address(outer) + offset) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: {} overlaps the other tensor, but is not exactly its part {}", who,
       inner_name, part);
}

void check_apart(const std::string& who, const at::Tensor& output, const at::Tensor& input) {
  if (are_apart(output, input)) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: output and input overlap in memory; they must be apart", who);
}

std::vector<int64_t> check_splits(const std::string& who, const char* what, std::vector<int64_t> splits,
                                  const at::Tensor& tensor, int size) {
  if (tensor.dim() == 0) fail(WEFT_INVALID_ARGUMENT, "{}: {} has no dimension to split", who, what);
  const int64_t rows = tensor.size(0);
  if (splits.empty()) {
    if (rows % size != 0) {
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the first dimension of {} is {}, which {} ranks cannot split evenly; give splits", who, what,
           rows, size);
    }
    return std::vector<int64_t>(size, rows / size);
  }
  if (static_cast<int>(splits.size()) != size) {
    fail(WEFT_INVALID_ARGUMENT, "{}: {} has {} splits, must have one for each of {} ranks", who, what,
         splits.size(), size);
  }
  for (const int64_t split : splits) {
    if (split < 0)
      fail(WEFT_INVALID_ARGUMENT, "{}: a split of {} is {}, must not be negative", who, what, split);
  }
  const int64_t sum = std::accumulate(splits.begin(), splits.end(), int64_t{0});
  if (sum != rows) {
    fail(WEFT_INVALID_ARGUMENT, "{}: the splits of {} sum to {}, must sum to its first dimension {}", who,
         what, sum, rows);
  }
  return splits;
}

int64_t elements_per_row(const at::Tensor& tensor) {
  int64_t elements = 1;
  for (int64_t dim = 1; dim < tensor.dim(); ++dim) elements *= tensor.size(dim);
  return elements;
}

}  // namespace weft::comm
