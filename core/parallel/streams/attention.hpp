// Attention when each rank of a sequence axis holds a part of the positions. In all functions `stream` is the
// residual stream of the queries and `source` that of the keys and values; both may be the same.
#pragma once

#include <cstdint>
#include <memory>

#include "streams/residual_stream.hpp"
#include "weft/nn/layers.hpp"

namespace weft::parallel {

// Returns attention by all-to-all (Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509): before attention the
// ranks exchange positions for heads, so that each attends to the whole sequence with its own heads;
// afterwards they exchange back. The number of heads must be a multiple of the number of ranks. If there are
// fewer heads of keys and values than ranks, they are repeated.
std::shared_ptr<nn::AttentionOperation> head_scatter_attention(std::shared_ptr<ResidualStream> stream,
                                                               std::shared_ptr<ResidualStream> source);

// Returns ring attention (Liu et al., Ring attention with blockwise transformers, arXiv:2310.01889): keys and
// values travel from rank to rank, and the results of their blocks are merged by log-sum-exp. Positions must
// be in zigzag order. `inner_ring` is the number of neighbours that form an inner ring: keys and values pass
// all ranks of it before they move to the next inner ring. It divides the number of ranks.
std::shared_ptr<nn::AttentionOperation> ring_attention(std::shared_ptr<ResidualStream> stream,
                                                       std::shared_ptr<ResidualStream> source,
                                                       int inner_ring);

}  // namespace weft::parallel
