// Attention where every rank of a sequence axis has some of the positions. `source`: of keys and values; the
// same stream as that of the queries, or another.
#pragma once

#include <cstdint>
#include <memory>

#include "parallel/residual_stream.hpp"
#include "weft/nn/layers.hpp"

namespace weft::parallel {

// Positions are exchanged for heads before and back afterwards: each rank attends with some heads over the
// whole sequence (Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509). The number of heads must be a multiple
// of the ranks; heads of keys and values fewer than ranks are repeated.
std::shared_ptr<nn::AttentionOperation> head_scatter_attention(std::shared_ptr<ResidualStream> stream,
                                                               std::shared_ptr<ResidualStream> source);

// Keys and values travel from rank to rank; what each part gives is merged by its log-sum-exp (Liu et al.,
// Ring attention with blockwise transformers, arXiv:2310.01889). Of positions in zigzag. `inner_ring`: so
// many neighbours pass on all that they have before a part goes to the next such group; it divides the ranks.
std::shared_ptr<nn::AttentionOperation> ring_attention(std::shared_ptr<ResidualStream> stream,
                                                       std::shared_ptr<ResidualStream> source,
                                                       int inner_ring);

// What each kind needs of a bias by position: some heads, or its own queries. `whole`: attention of all
// positions with this rank's heads.
std::shared_ptr<nn::PositionBiasOperation> head_scatter_bias(std::shared_ptr<ResidualStream> stream);
std::shared_ptr<nn::PositionBiasOperation> ring_bias(std::shared_ptr<ResidualStream> stream);
std::shared_ptr<nn::PositionBiasOperation> whole_bias(std::shared_ptr<ResidualStream> stream);

}  // namespace weft::parallel
