// What a plan puts into the operation slots of layers on a tensor axis of several ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/region.hpp"
#include "parallel/sequence.hpp"
#include "weft/nn/layers.hpp"
#include "weft/world.hpp"

namespace weft::parallel {

// Output features are split: every rank makes its own from the whole input. `input`: layers that read the
// same tensor share it; null: it has entered the region already. `sharers`: ranks that hold the same features
// (heads fewer than ranks), whose gradients of the weight add up; null if no other does.
std::shared_ptr<nn::LinearOperation> column_linear(std::shared_ptr<SharedInput> input, Communicator sharers);

// Input features are split: the ranks' partial results are summed, then the bias is added.
std::shared_ptr<nn::LinearOperation> row_linear(Communicator ranks);

// Classes are split, `counts` of them on each rank. Gives this rank's logits, from which its cross entropy is
// that of the whole; or all of them (`gathers`).
std::shared_ptr<nn::LinearOperation> vocabulary_linear(Communicator ranks, std::vector<int64_t> counts,
                                                       bool gathers);

// The input itself, which enters the region for whoever reads it there; `split`: not null where it is split
// along the sequence.
std::shared_ptr<nn::IdentityOperation> parallel_input(Communicator ranks,
                                                      std::shared_ptr<const SequenceSplit> split);

// Rows are split: each rank looks up the ids that are among its own, and the sum is the whole.
// `split`: not null where the stream is split along the sequence from here on; takes its length.
std::shared_ptr<nn::EmbeddingOperation> vocabulary_embedding(Communicator ranks, std::vector<int64_t> counts,
                                                             std::shared_ptr<SequenceSplit> split);

// Where the stream between regions is split along the sequence (sequence.hpp): column and row layers, a table
// that is looked up for own positions, norms whose weights see own positions alone, and the end of the split.
std::shared_ptr<nn::LinearOperation> sequence_column_linear(std::shared_ptr<GatheredInput> input,
                                                            Communicator sharers);
std::shared_ptr<nn::LinearOperation> sequence_row_linear(Communicator ranks);
std::shared_ptr<nn::EmbeddingOperation> position_embedding(Communicator ranks);
std::shared_ptr<nn::NormOperation> sequence_norm(Communicator ranks);
std::shared_ptr<nn::IdentityOperation> sequence_end(std::shared_ptr<const SequenceSplit> split);

}  // namespace weft::parallel
