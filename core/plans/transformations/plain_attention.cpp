// Attention step by step: matrix products and a softmax.
#include "transformations/plain_form.hpp"

namespace weft::transformations {

plan::Transformation plain_attention() {
  return {.name = "plain_attention",
          .kinds = {"Attention"},
          .layers = "attention",
          .option = "enable_flash_attention",
          .flag = &plan::ParallelSizes::flash_attention,
          .reason = plain_form};
}

}  // namespace weft::transformations
