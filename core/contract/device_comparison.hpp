// Compares operators of weft/device_operators.hpp on the device with those of the host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/device_rules.hpp"
#include "dispatch/operators.hpp"

namespace weft::contract {

class Comparison {
 public:
  using Run = std::function<TensorList(const TensorList& inputs)>;
  struct Type {
    at::ScalarType dtype;
    double tolerance;  // relative to the largest element of a result
  };

  Comparison(std::vector<Type> types, Findings& findings);

  // Runs an operator in each type, and expects what the host computes in fp32, or in fp64 for fp64, of the
  // same rounded inputs. Inputs in fp64 are rounded to the type; others are passed as they are. Does nothing
  // if the device does not offer the operator.
  template <class Operator>
  void look(const TensorList& inputs, const Run& run) {
    if (has_kernel<Operator>(example_)) look(Operator::kName, inputs, run);
  }

 private:
  void look(const std::string& name, const TensorList& inputs, const Run& run);

  const std::vector<Type> types_;
  Findings& findings_;
  const at::Tensor example_;
};

// Says how many operators the device offers.
void note_operators(Findings& findings);

}  // namespace weft::contract
