// How much a model of tokens computes: the floating-point operations of its matrix products.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/description.hpp"

namespace weft::plan {

// What each token passes through.
struct Products {
  int64_t weights = 0;             // elements of the weights of linear layers; a tied one where it multiplies
  int64_t attention_channels = 0;  // over all attention layers: heads times channels of a head of the queries
};

// Counts the products of a model of one sequence whose layers all see every token. Returns nothing if it has
// layers of which that is not known: other weights than those of linear layers, embeddings and norms; an
// adapter; attention whose projections are not its own linear layers.
std::optional<Products> count_products(const ModelDescription& model);

// Returns the floating-point operations of one step with one token of a sequence of `positions`: a forward,
// and a backward of twice as many. That is 6 for each weight, and 12 `positions` for each channel of
// attention, where a causal mask saves nothing (Chowdhery et al., PaLM, appendix B). Recomputation is not
// counted.
double operations_per_token(const Products& products, int64_t positions);

}  // namespace weft::plan
