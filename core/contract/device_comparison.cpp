#include "contract/device_comparison.hpp"

#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "contract/tensors.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

TensorList rounded(const TensorList& inputs, at::ScalarType dtype) {
  TensorList list;
  for (const at::Tensor& input : inputs)
    list.push_back(input.scalar_type() == at::kDouble ? input.to(dtype) : input.clone());
  return list;
}

// Of the rounded inputs, those that were rounded in the type of the host's results.
TensorList widened(const TensorList& inputs, const TensorList& given, at::ScalarType dtype) {
  TensorList list;
  for (size_t i = 0; i < inputs.size(); ++i)
    list.push_back(given[i].scalar_type() == at::kDouble ? inputs[i].to(dtype) : inputs[i].clone());
  return list;
}

std::string problem_of(const at::Tensor& found, const at::Tensor& expected, const std::string& name,
                       double tolerance) {
  if (found.defined() != expected.defined())
    return fmt::format("{} is {}, must be {}", name, found.defined() ? "there" : "undefined",
                       found.defined() ? "undefined" : "there");
  if (!found.defined()) return "";
  return difference(name, device::on_host(found).to(at::kDouble), expected.to(at::kDouble), tolerance);
}

}  // namespace

Comparison::Comparison(std::vector<Type> types, Findings& findings)
    : types_(std::move(types)), findings_(findings), example_(at::zeros({2}, on_it())) {}

void Comparison::look(const std::string& name, const TensorList& inputs, const Run& run) {
  const std::string rule = name + " gives the values of the host";
  for (const auto& [dtype, tolerance] : types_) {
    const TensorList own = rounded(inputs, dtype);
    const TensorList expected = run(widened(own, inputs, dtype == at::kDouble ? at::kDouble : at::kFloat));
    const TensorList found = run(there(own));
    for (size_t i = 0; i < expected.size(); ++i)
      findings_.look(rule,
                     within(at::toString(dtype),
                            problem_of(found[i], expected[i], fmt::format("result {}", i + 1), tolerance)));
  }
}

void note_operators(Findings& findings) {
  const at::Tensor example = at::zeros({2}, on_it());
  size_t all = 0;
  std::vector<std::string> lacking;
  operators::for_each([&](auto each) {
    ++all;
    if (!has_kernel<decltype(each)>(example)) lacking.emplace_back(each.kName);
  });
  findings.note("operators of weft/device_operators.hpp",
                lacking.empty()
                    ? fmt::format("all {} are offered", all)
                    : fmt::format("{} of {} are offered; operations of libtorch take the place of {}",
                                  all - lacking.size(), all, fmt::join(lacking, ", ")));
}

}  // namespace weft::contract
