// Calls forward and backward of a low-rank adapter of tier stable, without the engine. Usage: operation_host
// LIBRARY ID MAJOR.MINOR. Prints how far its output and gradients are from the formulas; exit code 1 if one
// is wrong, or the libtorch in this process is another one.
#include <weft/operation.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "stable_host.hpp"

namespace weft::test {
namespace {

constexpr int64_t kRows = 5, kInputs = 4, kOutputs = 3, kRank = 2, kAlpha = 6;
constexpr double kScale = static_cast<double>(kAlpha) / kRank;

// A matrix of small numbers, as a tensor and for the formulas.
struct Matrix {
  Matrix(int64_t rows, int64_t columns, double phase) : rows(rows), columns(columns) {
    const int64_t sizes[] = {rows, columns};
    tensor = torch::stable::empty({sizes, 2}, torch::headeronly::ScalarType::Float);
    for (int64_t i = 0; i < rows * columns; ++i)
      floats(tensor)[i] = static_cast<float>(std::sin(phase + static_cast<double>(i)));
  }
  double at(int64_t row, int64_t column) const { return floats(tensor)[row * columns + column]; }
  int64_t rows, columns;
  Tensor tensor;
};

// The largest difference between a tensor and formula(row, column).
template <class Formula>
double difference(const Tensor& tensor, int64_t rows, int64_t columns, const Formula& formula) {
  if (tensor.dim() != 2 || tensor.size(0) != rows || tensor.size(1) != columns) return INFINITY;
  const Tensor values = torch::stable::contiguous(tensor);
  double worst = 0;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      worst = std::max(worst, std::abs(floats(values)[row * columns + column] - formula(row, column)));
  return worst;
}

template <class Term>
double sum(int64_t count, const Term& term) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += term(i);
  return total;
}

weft_kv integer(const char* key, int64_t value) {
  return {text(key), WEFT_KIND_INT, 0, value, 0, {nullptr, 0}};
}

double run(const weft_operation& operation) {
  const Matrix x(kRows, kInputs, 0.3), w(kOutputs, kInputs, 1.1), a(kRank, kInputs, 2.7),
      b(kOutputs, kRank, 0.9), dy(kRows, kOutputs, 1.9);
  const std::array attributes = {integer("alpha", kAlpha), integer("rank", kRank)};
  const std::array<const weft_at_tensor*, 2> parameters = {handle(a.tensor), handle(b.tensor)};
  const std::vector<Tensor> kept(operation.num_saved);
  std::vector<weft_at_tensor*> saved;
  for (const Tensor& tensor : kept) saved.push_back(handle(tensor));
  const weft_linear_call call = {sizeof(call),      attributes.data(), attributes.size(),
                                 handle(x.tensor),  handle(w.tensor),  nullptr,
                                 parameters.data(), parameters.size(), saved.data()};
  const Tensor y, dx, dw, da, db;
  check(operation.forward(&operation, &call, handle(y), nullptr), "forward");
  const std::array<weft_at_tensor*, 2> of_parameters = {handle(da), handle(db)};
  const weft_linear_gradients gradients = {sizeof(gradients), handle(dx), handle(dw), nullptr,
                                           of_parameters.data()};
  check(operation.backward(&operation, &call, handle(dy.tensor), &gradients, nullptr), "backward");

  const auto inner = [&](int64_t row, int64_t r) {  // x A^T
    return sum(kInputs, [&](int64_t i) { return x.at(row, i) * a.at(r, i); });
  };
  const auto whole = [&](int64_t o, int64_t i) {  // W + s B A
    return w.at(o, i) + kScale * sum(kRank, [&](int64_t r) { return b.at(o, r) * a.at(r, i); });
  };
  const auto back = [&](int64_t row, int64_t r) {  // dy B
    return sum(kOutputs, [&](int64_t o) { return dy.at(row, o) * b.at(o, r); });
  };
  return std::max({difference(y, kRows, kOutputs,
                              [&](int64_t row, int64_t o) {
                                return sum(kInputs, [&](int64_t i) { return x.at(row, i) * whole(o, i); });
                              }),
                   difference(dx, kRows, kInputs,
                              [&](int64_t row, int64_t i) {
                                return sum(kOutputs, [&](int64_t o) { return dy.at(row, o) * whole(o, i); });
                              }),
                   difference(dw, kOutputs, kInputs,
                              [&](int64_t o, int64_t i) {
                                return sum(kRows, [&](int64_t row) { return dy.at(row, o) * x.at(row, i); });
                              }),
                   difference(da, kRank, kInputs,
                              [&](int64_t r, int64_t i) {
                                return kScale *
                                       sum(kRows, [&](int64_t row) { return back(row, r) * x.at(row, i); });
                              }),
                   difference(db, kOutputs, kRank, [&](int64_t o, int64_t r) {
                     return kScale * sum(kRows, [&](int64_t row) { return dy.at(row, o) * inner(row, r); });
                   })});
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  using namespace weft::test;
  if (argc != 4) fail("usage: operation_host LIBRARY ID MAJOR.MINOR");
  const std::string version = require_libtorch(argv[3]);
  const auto& factory = load<weft_operation_factory>(argv[1], WEFT_FACTORY_OPERATION,
                                                     [](weft_str) -> const void* { return nullptr; });
  const weft_operation* const operation = factory.find(&factory, text(argv[2]));
  if (operation == nullptr) fail("there is no such operation");
  const double worst = run(*operation);
  std::printf("libtorch %s: output and gradients differ by at most %g\n", version.c_str(), worst);
  return worst < 1e-5 ? 0 : 1;
}
