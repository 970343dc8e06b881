// Cross entropy of rows of logits with labels, summed. V: classes (the vocabulary). Memory bounds it: forward
// reads the logits twice from a cache and once from memory, backward once, and it may write its gradient over
// them. Where the gradient of the sum is known beforehand, one pass does both.
#pragma once

#include <cstdint>

namespace weft::kernels {

// Rows of V contiguous values. A row with a label outside [0, V) (the ignored ones) counts nothing; one with
// the label kElsewhere counts, but its label is among the classes of another rank.
constexpr int64_t kElsewhere = INT64_MIN;
struct CrossEntropyRows {
  int64_t rows;
  int64_t classes;
  const int64_t* labels;
};

// What backward needs of a row: log(sum over v of exp(logits[v])) = peak + log_sum, with the largest logit as
// peak. Apart, since logits far from 0 would round their sum to coarse steps.
template <typename T>
struct RowNormaliser {
  T peak, log_sum;
};

// Fills normalisers[row] (not for rows that count nothing) and returns the sum over rows of
// log_sum + peak - logits[label] (of rows whose label is here), added in the order of rows, whatever the
// number of threads.
template <typename T>
double cross_entropy_forward(const CrossEntropyRows& shape, const T* logits, RowNormaliser<T>* normalisers);

// gradient[row, v] = scale (exp(logits[row, v] - peak - log_sum) - [v is the label]), 0 for rows that count
// nothing. `gradient` may be `logits`.
template <typename T>
void cross_entropy_backward(const CrossEntropyRows& shape, const T* logits,
                            const RowNormaliser<T>* normalisers, T scale, T* gradient);

// Both, with one pass over memory: returns the sum, and overwrites the logits with their gradient for
// `scale`.
template <typename T>
double cross_entropy_with_gradient(const CrossEntropyRows& shape, T* logits, T scale);

// The same for one row, by the formula; no vectors.
template <typename T>
RowNormaliser<T> normaliser_plain(int64_t classes, const T* logits);
template <typename T>
void cross_entropy_gradient_plain(int64_t classes, const T* logits, int64_t label,
                                  RowNormaliser<T> normaliser, T scale, T* gradient);

}  // namespace weft::kernels
