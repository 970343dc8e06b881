// Norms one operation at a time.
#include "transformations/plain_form.hpp"

namespace weft::transformations {

plan::Transformation plain_normalization() {
  return {.name = "plain_normalization",
          .kinds = {"LayerNorm", "RMSNorm"},
          .layers = "norm",
          .option = "enable_fused_normalization",
          .flag = &plan::ParallelSizes::fused_normalization,
          .reason = plain_form};
}

}  // namespace weft::transformations
