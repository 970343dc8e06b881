// Rules of devices: generators, and what layers compute with beside Weft's operators.
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <cctype>
#include <functional>

#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "contract/tensors.hpp"
#include "device/autocast.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

struct Draw {
  const char* name;
  std::function<at::Tensor()> run;
};

const std::vector<Draw>& draws() {
  static const std::vector<Draw> all = {
      {"uniform numbers", [] { return at::rand({4096}, on_it()); }},
      {"normal numbers", [] { return at::randn({4096}, on_it()); }},
      {"truth values", [] { return at::bernoulli(at::full({4096}, 0.5, on_it())); }},
      {"dropout", [] { return at::dropout(at::ones({4096}, on_it()), 0.5, /*train=*/true); }}};
  return all;
}

bool is_same(const at::Tensor& one, const at::Tensor& other) {
  return exact_difference(one, other).empty();
}

void check_seeds(const Draw& draw, Findings& findings) {
  const auto seeded = [&](uint64_t seed) {
    device::seed_random(seed);
    return device::on_host(draw.run());
  };
  const at::Tensor numbers = seeded(7), next = device::on_host(draw.run());
  findings.look("the same seed gives the same random numbers",
                within(draw.name, exact_difference(seeded(7), numbers)));
  findings.look(
      "another seed gives other random numbers",
      is_same(seeded(8), numbers) ? fmt::format("{} of the seeds 7 and 8 are the same", draw.name) : "");
  findings.look("numbers that are drawn later are others",
                is_same(next, numbers) ? fmt::format("{} are the same at the second time", draw.name) : "");
}

void check_states(const Draw& draw, Findings& findings) {
  device::seed_random(5);
  draw.run();
  const at::Tensor state = device::random_state();
  const at::Tensor first = device::on_host(draw.run()), second = device::on_host(draw.run());
  device::set_random_state(state);
  constexpr const char* kRule = "a random state that is restored gives the same numbers again";
  findings.look(kRule, within(draw.name, exact_difference(draw.run(), first)));
  findings.look(kRule, within(draw.name, exact_difference(draw.run(), second)));
  device::seed_random(6);
  draw.run();
  device::set_random_state(state);
  findings.look(
      kRule, within(fmt::format("{}, after another seed", draw.name), exact_difference(draw.run(), first)));
}

void look_near(Findings& findings, const char* rule, const char* name, double found, double expected,
               double allowed) {
  findings.look(rule, std::abs(found - expected) <= allowed
                          ? ""
                          : fmt::format("{} is {:.4f}, must be near {:.4f}", name, found, expected));
}

void check_distributions(Findings& findings) {
  constexpr const char* kRule = "random numbers have their distribution";
  device::seed_random(11);
  const auto mean = [](const at::Tensor& values) {
    return device::value_of<double>(values.to(at::kDouble).mean());
  };
  const at::Tensor uniform = at::rand({1 << 16}, on_it()), normal = at::randn({1 << 16}, on_it());
  look_near(findings, kRule, "the mean of uniform numbers", mean(uniform), 0.5, 0.02);
  look_near(findings, kRule, "the mean of their squares", mean(uniform.square()), 1.0 / 3, 0.02);
  look_near(findings, kRule, "the mean of normal numbers", mean(normal), 0, 0.03);
  look_near(findings, kRule, "the mean of their squares", mean(normal.square()), 1, 0.04);
  const double least = device::value_of<double>(uniform.min()),
               most = device::value_of<double>(uniform.max());
  findings.look(kRule,
                least >= 0 && most < 1 ? "" : fmt::format("uniform numbers are from {} to {}", least, most));
}

// Compares with what the host makes of the same values.
void look_at_product(Findings& findings, const std::string& rule, const at::Tensor& found,
                     const at::Tensor& x, const at::Tensor& y, double tolerance) {
  const at::Tensor expected = at::matmul(x.to(at::kDouble), y.to(at::kDouble));
  findings.look(rule, difference(at::toString(x.scalar_type()), device::on_host(found).to(at::kDouble),
                                 expected, tolerance));
}

void check_products(Findings& findings) {
  constexpr std::pair<at::ScalarType, double> kTypes[] = {
      {at::kFloat, 1e-5}, {at::kDouble, 1e-12}, {at::kBFloat16, 1e-2}, {at::kHalf, 4e-3}};
  for (const auto& [dtype, tolerance] : kTypes) {
    const at::Tensor x = host_values({3, 33, 65}, dtype), y = host_values({65, 17}, dtype, 2);
    const at::Tensor a = there(x), b = there(y);
    constexpr const char* kRule = "matrix products are those of the host";
    look_at_product(findings, kRule, at::matmul(a, b), x, y, tolerance);
    look_at_product(findings, kRule, at::matmul(a, there(y.t().contiguous()).t()), x, y, tolerance);
    look_at_product(findings, kRule, at::matmul(a, there(x).transpose(1, 2)), x, x.transpose(1, 2),
                    tolerance);
  }
}

void check_autocast(Findings& findings) {
  const at::Tensor x = host_values({17, 33}), y = host_values({33, 9}, at::kFloat, 2);
  const at::Tensor a = there(x), b = there(y);
  constexpr const char* kRule = "autocast computes matrix products in its type, and only while it is on";
  const auto look_at_type = [&](const char* what, const at::Tensor& found, at::ScalarType expected) {
    findings.look(kRule, found.scalar_type() == expected
                             ? ""
                             : fmt::format("{} is of {}, must be of {}", what,
                                           at::toString(found.scalar_type()), at::toString(expected)));
  };
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    {
      const device::Autocast on(dtype);
      const at::Tensor product = at::matmul(a, b);
      look_at_type("a product", product, dtype);
      look_at_product(findings, kRule, product, x.to(dtype), y.to(dtype), dtype == at::kHalf ? 4e-3 : 1e-2);
      look_at_type("what is passed to a product", device::autocast(a), dtype);
      look_at_type("an exponential", product.exp(), at::kFloat);
      const device::NoAutocast off;
      look_at_type("a product without it", at::matmul(a, b), at::kFloat);
    }
    look_at_type("a product after its end", at::matmul(a, b), at::kFloat);
  }
}

void check_tf32(Findings& findings) {
  const device::Device& device = device::current();
  if (device.kind().allow_tf32 == nullptr)
    return findings.note("TF32", "not offered: --allow-tf32 is refused");
  const std::string refusal = device.kind().allow_tf32(device.place().index());
  if (!refusal.empty()) return findings.note("TF32", "not offered: " + refusal);
  const at::Tensor x = host_values({33, 65}), y = host_values({65, 17}, at::kFloat, 2);
  look_at_product(findings, "products with TF32 are those of the host up to 10 bits",
                  at::matmul(there(x), there(y)), x, y, 2e-3);
}

}  // namespace

void check_random(const World&, Findings& findings) {
  for (const Draw& draw : draws()) {
    check_seeds(draw, findings);
    check_states(draw, findings);
  }
  check_distributions(findings);
  device::seed_random(3);
  const uint64_t expected = device::draw_random();
  device::seed_random(3);
  for (const Draw& draw : draws()) draw.run();
  findings.look("what the device draws leaves the generator of the host as it is",
                device::draw_random() == expected ? "" : "it draws another number then");
}

void check_computing(const World&, Findings& findings) {
  check_products(findings);
  check_autocast(findings);
  check_tf32(findings);
}

}  // namespace weft::contract
