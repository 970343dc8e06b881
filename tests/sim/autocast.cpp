// Autocast with the lists of CUDA.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// The macros of the lists expect names of this namespace.
namespace at {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define SINGLE_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define SINGLE_PRECISION_OUTPUT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(SINGLE_PRECISION)
  AT_FORALL_FP32_SET_OPT_DTYPE(SINGLE_PRECISION_OUTPUT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(WIDEST)
}
}  // namespace at
