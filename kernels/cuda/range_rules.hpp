// Lion, LARS and LAMB over many ranges in one launch, and sums of squares. T: float or double. The formulas
// are in formula/update_rules.hpp; every thread reads and writes single numbers, neighbouring threads
// neighbouring ones, which memory bounds as vectors would.
#pragma once

#include <cstdint>

#include "cuda/chunks.hpp"
#include "cuda/stream.hpp"
#include "formula/decision.hpp"
#include "formula/update_rules.hpp"

namespace weft::kernels::cuda {

// The memory of a range; what a rule does not use may be null. Chunks of a range follow each other.
template <class T>
struct RuleRange {
  T* value;
  const T* gradient;
  T* first;   // momentum, or the average of the gradients
  T* second;  // the average of their squares
  double rate;
  int64_t counted_begin, counted_end;  // the elements that sums count
  int64_t first_chunk = 0, num_chunks = 0;
};

// Tables in device memory. Without chunks the rules do nothing, and sums are 0.
template <class Range>
struct SummedTable {
  const Range* ranges;
  const Chunk* chunks;
  int64_t num_ranges, num_chunks;
};
template <class T>
using RuleTable = SummedTable<RuleRange<T>>;

// Gradients stay as they are; `options.scale` multiplies them on the way. `decision`, in device memory, takes
// its place if it is not null.
template <class T>
void lion(const RuleTable<T>& table, const LionOptions& options, const Decision* decision, Stream stream);
// `options.rate` is not used: each range has its own.
template <class T>
void lars(const RuleTable<T>& table, const LarsOptions& options, Stream stream);
// sums: (num_ranges, 2), the squares of values and of directions over the counted elements. parts:
// (num_chunks, 2), working memory. Both are added up in double, in an order that depends on the lengths
// alone.
template <class T>
void lamb_moments(const RuleTable<T>& table, const LambOptions& options, double* parts, double* sums,
                  Stream stream);
// w -= rate u.
template <class T>
void lamb_step(const RuleTable<T>& table, const LambOptions& options, Stream stream);

// sums: (num_ranges), the squares of the values. parts: (num_chunks), working memory.
template <class T>
void sums_of_squares(const RuleTable<T>& table, double* parts, double* sums, Stream stream);

}  // namespace weft::kernels::cuda
