// What the ranks of the tensor and sequence axes send. A plan's operations list transfers; the sequence mode
// knows the collectives that its residual stream calls for each, and this file counts their bytes.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "sequence_modes/sequence_mode.hpp"

namespace weft::plan {

// Lists the transfers of every module that units run.
std::vector<PlannedTransfer> list_transfers(const ModelDescription& model, const Plan& plan);

// The positions of one sequence in a micro-batch, as Model::lengths gives them.
struct SequenceShape {
  std::string name;
  int64_t positions = 0;
  int64_t rows = 0;
};

// The batch and the options that decide how much one forward and backward sends.
struct TrafficShape {
  std::vector<SequenceShape> sequences = {};
  int64_t element_size = 4;               // bytes of an element of activations and gradients
  std::set<std::string> recomputed = {};  // paths of the modules that backward recomputes
};

// Bytes by collective, in the order of kCollectives.
using SentBytes = std::array<int64_t, kCollectives.size()>;

// Returns the bytes that the first rank of the tensor and sequence axes sends over them in one forward and
// backward, as if every parameter were trained. Throws INVALID_ARGUMENT naming a sequence that `shape` lacks.
SentBytes sent_bytes(const Plan& plan, const TrafficShape& shape);

// Returns what each module sends as text, with one line for all modules that send the same:
// "sends       12: h.{0..11}.mlp.c_proj  forward: all-reduce of 768 elements per position".
std::string explain_transfers(const Plan& plan);

// Returns the collectives of a transfer in forward and in backward for the documentation, of tensor-parallel
// ranks that do not split sequences.
std::array<std::string, 2> document(const Transfer& transfer);

// Returns two Markdown tables for the documentation: the operations, and their attributes.
std::string operations_in_markdown();

}  // namespace weft::plan
