#include "weft/nn/rotary.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

nn::RotaryConfig read(const std::string& json) {
  return nn::RotaryConfig::read(Config::parse(json, "config.json"), 64);
}

// Computes rotary embeddings with angles in fp32, like Hugging Face. x: (N, T, H, D), positions: (N, T).
at::Tensor formula(const at::Tensor& x, const at::Tensor& positions, double theta) {
  const int64_t size = x.size(-1);
  const at::Tensor frequencies =
      at::pow(theta, at::arange(0, size, 2, at::kFloat) / static_cast<double>(size)).reciprocal();
  const at::Tensor half = positions.to(at::kFloat).unsqueeze(-1) * frequencies;
  const at::Tensor angles = at::cat({half, half}, -1).unsqueeze(2);
  const std::vector<at::Tensor> parts = x.chunk(2, -1);
  return x * angles.cos().to(x.dtype()) + at::cat({-parts[1], parts[0]}, -1) * angles.sin().to(x.dtype());
}

TEST(Rotary, TurnsByItsPositionAtEverySize) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (int64_t size : {2, 6, 32, 64, 72}) {
      at::manual_seed(size);
      const nn::Rotary rotary({.theta = 500}, size);
      const at::Tensor x = at::randn({2, 5, 3, size}, dtype).requires_grad_(true), up = at::randn_like(x);
      const at::Tensor copy = x.detach().clone().requires_grad_(true);
      const at::Tensor counted = at::arange(5).unsqueeze(0);
      const at::Tensor drawn = at::randint(0, 40, {2, 5}, at::kLong);
      for (const at::Tensor& positions : {at::Tensor(), counted, drawn}) {
        const at::Tensor found = rotary(x, positions);
        const at::Tensor expected = formula(copy, positions.defined() ? positions : counted, 500);
        EXPECT_TRUE(is_near(found, expected, kKernelFp32)) << size;
        (found * up).sum().backward();
        (expected * up).sum().backward();
        EXPECT_TRUE(is_near(x.grad(), copy.grad(), kKernelFp32)) << size;
      }
    }
  }
}

TEST(Rotary, IsTheSameForHeadsThatAreNotContiguous) {
  const nn::Rotary rotary({}, 8);
  const at::Tensor x = at::randn({2, 4, 6, 8});
  EXPECT_TRUE(rotary(x.slice(2, 0, 6, 2), {}).equal(rotary(x, {}).slice(2, 0, 6, 2)));
}

TEST(RotaryConfig, ReadsKeysOfBothVersions) {
  EXPECT_EQ(read("{}").theta, 10000);
  EXPECT_EQ(read(R"({"rope_theta": 500000.0, "rope_scaling": null})").theta, 500000);
  const nn::RotaryConfig old = read(R"({"rope_theta": 7, "rope_scaling": {"type": "linear", "factor": 2}})");
  EXPECT_EQ(old.scaling, nn::RotaryConfig::Scaling::kLinear);
  EXPECT_EQ(old.theta, 7);
  EXPECT_EQ(old.factor, 2);
  const nn::RotaryConfig now =
      read(R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32}})");
  EXPECT_EQ(now.scaling, nn::RotaryConfig::Scaling::kByWavelength);
  EXPECT_EQ(now.theta, 500000);
  EXPECT_EQ(now.original_positions, 32);
  EXPECT_EQ(read(
                R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                               "high_freq_factor": 4}})")
                .original_positions,
            64);
}

TEST(RotaryConfig, RefusesOtherScalingsByName) {
  for (const char* type : {"dynamic", "yarn", "longrope"}) {
    EXPECT_ERROR(read(fmt::format(R"({{"rope_scaling": {{"rope_type": "{}", "factor": 2}}}})", type)),
                 WEFT_UNIMPLEMENTED, "config.json: \"rope_scaling\"", type, "default, linear, llama3");
  }
  EXPECT_ERROR(read(R"({"rope_parameters": {"rope_type": "liner", "factor": 2}})"), WEFT_INVALID_ARGUMENT,
               "liner", "did you mean \"linear\"?");
  EXPECT_ERROR(read(R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})"),
               WEFT_UNIMPLEMENTED, "partial_rotary_factor", "0.5");
}

TEST(RotaryConfig, RefusesWhatIsMissingOrContradictory) {
  EXPECT_ERROR(read(R"({"rope_scaling": {"type": "linear"}})"), WEFT_INVALID_ARGUMENT, "\"factor\"");
  EXPECT_ERROR(read(R"({"rope_scaling": {"type": "linear", "factor": 0.5}})"), WEFT_INVALID_ARGUMENT,
               "\"factor\" is 0.5", "at least 1");
  EXPECT_ERROR(read(
                   R"({"rope_scaling": {"type": "llama3", "factor": 2, "low_freq_factor": 4,
                               "high_freq_factor": 4}})"),
               WEFT_INVALID_ARGUMENT, "low_freq_factor", "high_freq_factor");
  EXPECT_ERROR(read(R"({"rope_theta": 0})"), WEFT_INVALID_ARGUMENT, "rope_theta", "more than 0");
}

// Each value has two places or names in the files of transformers 4 and 5.
TEST(RotaryConfig, RefusesPlacesOfOneValueThatDiffer) {
  EXPECT_ERROR(read(R"({"rope_theta": 7, "rope_parameters": {"rope_type": "default", "rope_theta": 5}})"),
               WEFT_INVALID_ARGUMENT, "config.json: \"rope_parameters\": \"rope_theta\" is 5", "is 7");
  EXPECT_ERROR(read(R"({"partial_rotary_factor": 0.5,
                        "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1}})"),
               WEFT_INVALID_ARGUMENT, "\"partial_rotary_factor\" is 1", "0.5");
  EXPECT_ERROR(read(R"({"rope_scaling": {"rope_type": "linear", "type": "default", "factor": 2}})"),
               WEFT_INVALID_ARGUMENT, "\"rope_type\" is linear", "\"type\"", "default");
  EXPECT_ERROR(read(R"({"rope_scaling": {"rope_type": "linear", "factor": 2},
                        "rope_parameters": {"rope_type": "linear", "factor": 4}})"),
               WEFT_INVALID_ARGUMENT, "\"rope_parameters\"", "\"rope_scaling\"", ":2", ":4");
  EXPECT_ERROR(read(R"({"original_max_position_embeddings": 16, "rope_scaling": {"rope_type": "llama3",
                        "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                        "original_max_position_embeddings": 32}})"),
               WEFT_INVALID_ARGUMENT, "\"original_max_position_embeddings\" is 32", "is 16");
  EXPECT_EQ(read(R"({"rope_theta": 7, "rope_scaling": {"rope_type": "linear", "type": "linear",
                     "rope_theta": 7.0, "factor": 2}})")
                .theta,
            7);
}

}  // namespace

}  // namespace weft::test
