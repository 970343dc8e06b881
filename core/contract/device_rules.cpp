#include "contract/device_rules.hpp"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <cstring>

#include "base/text.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

at::Tensor host_values(at::IntArrayRef sizes, at::ScalarType dtype, uint64_t seed) {
  const at::Generator generator = device::host_generator(seed);
  const auto integers = [&](int64_t first, int64_t last) {
    return at::randint(first, last + 1, sizes, generator, at::kLong).to(dtype);
  };
  if (dtype == at::kBool) return integers(0, 1);
  if (dtype == at::kByte) return integers(0, 100);
  if (at::isIntegralType(dtype, false)) return integers(-100, 100);
  return at::randn(sizes, generator, at::kDouble).to(dtype);
}

at::Tensor there(const at::Tensor& tensor) {
  return tensor.to(device::current().place(), /*non_blocking=*/false, /*copy=*/true);
}

TensorList there(const TensorList& tensors) {
  TensorList moved;
  for (const at::Tensor& tensor : tensors) moved.push_back(there(tensor));
  return moved;
}

at::TensorOptions on_it(at::ScalarType dtype) {
  return device::current().options(dtype);
}

std::string exact_difference(const at::Tensor& found, const at::Tensor& expected) {
  if (found.scalar_type() != expected.scalar_type())
    return fmt::format("has the type {}, must have {}", at::toString(found.scalar_type()),
                       at::toString(expected.scalar_type()));
  if (found.sizes() != expected.sizes())
    return fmt::format("has the shape ({}), must have ({})", fmt::join(found.sizes(), ", "),
                       fmt::join(expected.sizes(), ", "));
  const at::Tensor one = device::on_host(found).contiguous().flatten();
  const at::Tensor other = device::on_host(expected).contiguous().flatten();
  const auto bytes = device::values_of<uint8_t>(one.view(at::kByte));
  const auto right = device::values_of<uint8_t>(other.view(at::kByte));
  const auto size = static_cast<size_t>(one.element_size());
  for (int64_t i = 0; i < one.numel(); ++i) {
    const size_t place = static_cast<size_t>(i) * size;
    if (std::memcmp(bytes.data() + place, right.data() + place, size) == 0) continue;
    return fmt::format("element {} of {} is {:.9g}, must be {:.9g}", i, one.numel(),
                       device::value_of<double>(one[i]), device::value_of<double>(other[i]));
  }
  return "";
}

std::string within(const std::string& what, const std::string& problem) {
  return problem.empty() ? "" : what + ": " + problem;
}

}  // namespace weft::contract
