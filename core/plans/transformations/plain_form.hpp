// Why a layer runs in its plain form. Layers have a fused form, the default, and a plain form with equal
// results up to rounding.
#pragma once

#include "transformations/transformation.hpp"

namespace weft::transformations {

// Returns the reason if the user wants the plain form of all such layers, or if the entry of this one states
// Fact::kPlainForm.
inline std::string plain_form(const plan::Transformation& self, const plan::TransformedLayer& layer,
                              const plan::ParallelSizes& sizes) {
  if (sizes.*self.flag == self.wanted) return self.option + " is false";
  return layer.entry != nullptr && plan::states(*layer.entry, plan::Fact::kPlainForm)
             ? "the policy forbids the fused form"
             : "";
}

}  // namespace weft::transformations
