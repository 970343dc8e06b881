// Attention where every rank of a sequence axis has some of the positions.
#pragma once

#include <cstdint>
#include <memory>

#include "parallel/stream.hpp"
#include "weft/nn/layers.hpp"

namespace weft::parallel {

// Positions are exchanged for heads before and back afterwards: each rank attends with some heads over the
// whole sequence (Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509). The number of heads must be a multiple
// of the ranks; heads of keys and values fewer than ranks are repeated.
std::shared_ptr<nn::AttentionOperation> head_scatter_attention(std::shared_ptr<Stream> stream);

// Keys and values travel from rank to rank; what each part gives is merged by its log-sum-exp (Liu et al.,
// Ring attention with blockwise transformers, arXiv:2310.01889). Of positions in zigzag. `inner_ring`: so
// many neighbours pass on all that they have before a part goes to the next such group; it divides the ranks.
std::shared_ptr<nn::AttentionOperation> ring_attention(std::shared_ptr<Stream> stream, int inner_ring);

}  // namespace weft::parallel
