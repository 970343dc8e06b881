// The inputs of a model: token ids, pixels, spectra. A subclass of Inputs checks the fields of one of the
// model's sequences and copies them from the batch to the State.
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
  // Returns the names of the fields that a batch may have. The first one is required.
  virtual std::vector<std::string> fields() const = 0;
  // Returns the fields of the State that the first unit erases. All others stay until the last unit.
  virtual std::vector<std::string> consumed() const = 0;
  // Checks the fields and writes to `state` what the units read. Throws INVALID_ARGUMENT naming the field,
  // what was found and what is wanted.
  virtual void read(const BatchFields& batch, State& state) const = 0;
  // Returns the shape of the positions that the blocks process, (B, T) or (B, choices, T). Reads the shapes
  // of the fields and no values.
  virtual std::vector<int64_t> shape(const Batch& batch) const = 0;
  // Adds the required fields for `samples` sequences of `positions` positions to `batch`; Model::example()
  // returns the result.
  virtual void add_example(int64_t samples, int64_t positions, Batch& batch) const = 0;
};

// A field of floating-point values with a fixed shape, such as pixels or spectra.
struct DenseField {
  std::string name;                   // "pixel_values", "input_features"
  std::vector<int64_t> sample_shape;  // (channels, height, width), (mel bins, frames)
  int64_t positions;                  // the sequence length that the first unit makes of a sample
  at::ScalarType dtype;               // the dtype that the units compute in; the field is cast to it
};
// Returns inputs that copy this field (B, ...) to the State under its own name; the first unit erases it.
std::unique_ptr<Inputs> make_dense_inputs(DenseField field);

}  // namespace weft::nn
