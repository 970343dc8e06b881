// What the first unit of a model reads of a batch: token ids, pixels, spectra. Each kind checks its own
// fields; a model is composed with one object for each of its sequences.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/batch_fields.hpp"

namespace weft::nn {

// The inputs of one sequence of a model.
class Inputs {
 public:
  virtual ~Inputs() = default;
  // The names of the batch's fields. The first one must be there.
  virtual std::vector<std::string> fields() const = 0;
  // The fields of the state that the first unit erases; all others travel to the last unit.
  virtual std::vector<std::string> consumed() const = 0;
  // Checks the fields and adds to `state` what the units read. Throws INVALID_ARGUMENT naming the field, what
  // was found and what is wanted.
  virtual void read(const BatchFields& batch, State& state) const = 0;
  // The shape of the positions that the blocks process, (B, T) or (B, choices, T), from the shapes of the
  // fields alone.
  virtual std::vector<int64_t> shape(const Batch& batch) const = 0;
  // Adds fields for `samples` sequences of `positions` positions, as Model::example().
  virtual void add_example(int64_t samples, int64_t positions, Batch& batch) const = 0;
};

// One field of real numbers whose size is fixed: pixels, spectra.
struct DenseField {
  std::string name;                   // "pixel_values", "input_features"
  std::vector<int64_t> sample_shape;  // (channels, height, width), (mel bins, frames)
  int64_t positions;                  // of the sequence that the first unit makes of a sample
  at::ScalarType dtype;               // what the units compute in; the field is cast to it
};
// Adds the field to the state under its own name, (B, ...); the first unit erases it.
std::unique_ptr<Inputs> make_dense_inputs(DenseField field);

}  // namespace weft::nn
