// Activations, and dropouts with the residual addition after them, one operation at a time.
#include "transformations/plain_form.hpp"

namespace weft::transformations {

plan::Transformation plain_elementwise() {
  return {.name = "plain_elementwise",
          .kinds = {"Activation", "Dropout"},
          .layers = "activation or dropout",
          .option = "enable_jit_fused",
          .flag = &plan::ParallelSizes::jit_fused,
          .reason = plain_form};
}

}  // namespace weft::transformations
