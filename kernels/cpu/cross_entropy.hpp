// Cross entropy of rows of logits with labels, summed. V: classes (the vocabulary). Memory bounds it: forward
// reads the logits twice from a cache and once from memory, backward once, and it may write its gradient over
// them.
#pragma once

#include <cstdint>

namespace weft::kernels {

// Rows of V contiguous values. A row with a label outside [0, V) (the ignored ones) counts nothing.
struct CrossEntropyRows {
  int64_t rows;
  int64_t classes;
  const int64_t* labels;
};

// log_sum_exp[row] = log(sum over v of exp(logits[row, v])), 0 for rows that count nothing. Returns the sum
// over rows of log_sum_exp[row] - logits[row, label], added in the order of rows, whatever the number of
// threads.
template <typename T>
double cross_entropy_forward(const CrossEntropyRows& shape, const T* logits, T* log_sum_exp);

// gradient[row, v] = scale (exp(logits[row, v] - log_sum_exp[row]) - [v is the label]), 0 for rows that count
// nothing. `gradient` may be `logits`.
template <typename T>
void cross_entropy_backward(const CrossEntropyRows& shape, const T* logits, const T* log_sum_exp, T scale,
                            T* gradient);

// The same, by the formula: one row, no vectors, no threads. What the tests compare with.
template <typename T>
T log_sum_exp_plain(int64_t classes, const T* logits);
template <typename T>
void cross_entropy_row_plain(int64_t classes, const T* logits, int64_t label, T log_sum_exp, T scale,
                             T* gradient);

}  // namespace weft::kernels
