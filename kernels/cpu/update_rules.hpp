// One pass of an optimizer's update rule over n elements: w values, g gradients, the rest state. Each reads
// and writes what it needs once. T is float or double; sums are added up in double. The formulas of one
// element are in formula/update_rules.hpp.
#pragma once

#include <cstdint>

#include "formula/update_rules.hpp"

namespace weft::kernels {

// Multiplies g by `scale` first, in place, as do the other two that have it; m is the momentum.
template <class T>
void lion(int64_t n, T* w, T* g, T* m, const LionOptions& options);

// v may be null without momentum.
template <class T>
void lars(int64_t n, T* w, T* g, T* v, const LarsOptions& options);

// Updates the moments; adds the squares of w and of the direction to sums[0] and sums[1].
template <class T>
void lamb_moments(int64_t n, const T* w, T* g, T* m, T* v, const LambOptions& options, double* sums);
// w -= rate u.
template <class T>
void lamb_step(int64_t n, T* w, const T* m, const T* v, const LambOptions& options, double rate);

template <class T>
double sum_of_squares(int64_t n, const T* x);

// The pieces of Adafactor and CAME on a part of one row of a matrix, on the caller's thread: c has a factor
// for each column, and `rate` is a rate times the factor of the row.

// Adds g^2 to `columns`, returns its sum.
template <class T>
double squares(int64_t n, const T* g, double* columns);
// The sum of (g c)^2.
template <class T>
double scaled_squares(int64_t n, const T* g, const T* c);
// m = beta m + rate g c.
template <class T>
void factored_average(int64_t n, T* m, const T* g, const T* c, T rate, T beta);
// Adds (rate g c - m)^2 to `columns`, returns its sum.
template <class T>
double instabilities(int64_t n, const T* m, const T* g, const T* c, T rate, double* columns);
// w = keep w - rate g c.
template <class T>
void factored_step(int64_t n, T* w, const T* g, const T* c, T rate, T keep);

}  // namespace weft::kernels
