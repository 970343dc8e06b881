// What a plan puts into the operation slots of layers on a tensor axis of several ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/residual_stream.hpp"
#include "weft/nn/layers.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// Output features of a rank that `ranks` hold too (heads fewer than ranks): their gradients add up.
struct SharedFeatures {
  int64_t begin = 0, count = 0;
  Communicator ranks;
};

// Output features are split: every rank makes its own from the whole input. `input`: layers that read the
// same tensor share it; null: it has entered the region already.
std::shared_ptr<nn::LinearOperation> column_linear(std::shared_ptr<RegionInput> input,
                                                   std::vector<SharedFeatures> shared);

// Input features are split: the ranks' partial results are summed, then the bias is added.
std::shared_ptr<nn::LinearOperation> row_linear(std::shared_ptr<ResidualStream> stream);

// Classes are split, `counts` of them on each rank. Gives this rank's logits, from which its cross entropy is
// that of the whole; or all of them (`gathers`). Of an input that has all positions, or with `stream` those
// that a region has: its cross entropy is then that of their labels.
std::shared_ptr<nn::LinearOperation> vocabulary_linear(Communicator ranks, std::vector<int64_t> counts,
                                                       bool gathers, std::shared_ptr<ResidualStream> stream);

// Rows are split: each rank looks up the ids that are among its own, and the sum is the whole. Here a stream
// begins, which gets its length.
std::shared_ptr<nn::EmbeddingOperation> vocabulary_embedding(Communicator ranks, std::vector<int64_t> counts,
                                                             std::shared_ptr<ResidualStream> stream);
// A whole table whose rows the stream is made of.
std::shared_ptr<nn::EmbeddingOperation> stream_embedding(std::shared_ptr<ResidualStream> stream);

// A norm of the stream.
std::shared_ptr<nn::NormOperation> stream_norm(std::shared_ptr<ResidualStream> stream);

// The input itself, which enters a region for whoever reads it there; the ids with which a stream begins; and
// what it ends with.
std::shared_ptr<nn::IdentityOperation> parallel_input(std::shared_ptr<ResidualStream> stream);
std::shared_ptr<nn::IdentityOperation> sequence_begin(std::shared_ptr<ResidualStream> stream);
std::shared_ptr<nn::IdentityOperation> sequence_end(std::shared_ptr<ResidualStream> stream);

}  // namespace weft::parallel
