// What the operators of Adafactor and CAME take: slices, where they are among the matrices of their
// parameters, and the factors of their directions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "optim/matrix_slice.hpp"

namespace weft::optim {

// The factors of the direction u = row factor * gradient * column factor of a whole parameter: flat, in host
// memory.
struct Factors {
  at::Tensor rows, columns;
};

// Computes the factors of 1 / sqrt(row column / mean of the rows), which approximates 1 / sqrt of the second
// moment of each element.
Factors factors_of(const at::Tensor& rows, const at::Tensor& columns);

// The lists of the operators for slices on one device. Each element of a slice of fewer than two dimensions
// is a column, with the factor 1 / sqrt(exp_avg_sq).
struct Directions {
  std::vector<Slice*> slices;
  std::vector<at::Tensor> values, gradients, row_factors, column_factors;
  std::vector<int64_t> places;

  // Returns one state of each slice.
  std::vector<at::Tensor> states(const std::string& name) const;
};

// Returns the directions of slices, those in host memory apart. factors(parameter) are those of a parameter
// of two or more dimensions. Leaves out slices without elements.
std::vector<Directions> directions_of(std::vector<Slice>& slices,
                                      const std::function<Factors(const Whole&)>& factors);

// Adds the numbers of a slice to the `places` of the operators.
void add_place(const Slice& slice, const kernels::MatrixRange& range, std::vector<int64_t>& places);

}  // namespace weft::optim
