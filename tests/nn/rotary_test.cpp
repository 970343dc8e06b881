#include "weft/nn/rotary.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/rotary_decoder.hpp"

namespace weft::test {

namespace {

nn::RotaryConfig read(const std::string& json) {
  return nn::RotaryConfig::read(Config::parse(json, "config.json"), 64);
}

// Computes rotary embeddings with angles in fp32, like Hugging Face. x: (N, T, H, D), positions: (N, T).
// Exponents are divided by D, or by `of` if it is not 0.
at::Tensor formula(const at::Tensor& x, const at::Tensor& positions, double theta, int64_t of = 0) {
  const int64_t size = of == 0 ? x.size(-1) : of;
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

// The first channels turn as those of a head of their number; the others and their gradients pass.
TEST(Rotary, TurnsAPartOfAHead) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const auto& [part, size, turning] :
         {std::tuple(0.5, 32, 16), {0.25, 128, 32}, {0.5, 72, 36}, {0.3, 20, 6}, {0.5, 7, 4}}) {
      at::manual_seed(size);
      const nn::RotaryConfig config = {.theta = 500, .part = part};
      EXPECT_EQ(config.turning(size), turning);
      const nn::Rotary rotary(config, size);
      const at::Tensor x = at::randn({2, 5, 3, size}, dtype).requires_grad_(true), up = at::randn_like(x);
      const at::Tensor copy = x.detach().clone().requires_grad_(true);
      const at::Tensor counted = at::arange(5).unsqueeze(0), drawn = at::randint(0, 40, {2, 5}, at::kLong);
      const double tolerance = dtype == at::kBFloat16 ? 2e-2 : kKernelFp32;
      for (const at::Tensor& positions : {at::Tensor(), drawn}) {
        const at::Tensor found = rotary(x, positions), turned = copy.narrow(-1, 0, turning),
                         expected = at::cat({formula(turned, positions.defined() ? positions : counted, 500,
                                                     static_cast<int64_t>(size * part)),
                                             copy.slice(-1, turning)},
                                            -1);
        EXPECT_TRUE(is_near(found, expected, tolerance)) << size;
        EXPECT_TRUE(found.slice(-1, turning).equal(x.slice(-1, turning))) << size;
        const auto of = [&](const at::Tensor& y, const at::Tensor& leaf) {
          return torch::autograd::grad({(y * up).sum()}, {leaf})[0];
        };
        EXPECT_TRUE(is_near(of(found, x), of(expected, copy), tolerance)) << size;
      }
    }
  }
}

TEST(Rotary, NeedsAChannelThatTurnsAndPairs) {
  EXPECT_EQ(nn::RotaryConfig{}.turning(7), 0);
  EXPECT_EQ((nn::RotaryConfig{.part = 0.1}).turning(8), 0);
  EXPECT_ERROR(nn::Rotary({.part = 0.1}, 8), WEFT_INVALID_ARGUMENT, "0.1 of the 8 channels");
  EXPECT_ERROR(nn::Rotary({}, 7), WEFT_INVALID_ARGUMENT, "1 of the 7 channels", "even");
  EXPECT_ERROR(nn::Rotary({.part = 1.5}, 8), WEFT_INVALID_ARGUMENT, "1.5");
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

TEST(RotaryConfig, ReadsThePartOfAHead) {
  const auto part = [](const std::string& json, std::optional<double> otherwise) {
    return nn::RotaryConfig::read(Config::parse(json, "config.json"), 64, otherwise).part;
  };
  EXPECT_EQ(part("{}", {}), 1);
  EXPECT_EQ(part("{}", 0.25), 0.25);
  EXPECT_EQ(part(R"({"partial_rotary_factor": 0.5})", 0.25), 0.5);
  EXPECT_EQ(part(R"({"rope_parameters": {"rope_type": "linear", "factor": 2, "partial_rotary_factor": 0.5}})",
                 0.25),
            0.5);
  for (const char* wrong : {"0", "-0.5", "1.5"})
    for (const std::optional<double>& otherwise : {std::optional<double>(), std::optional(0.25)})
      EXPECT_ERROR(part(fmt::format(R"({{"partial_rotary_factor": {}}})", wrong), otherwise),
                   WEFT_INVALID_ARGUMENT, "config.json: \"partial_rotary_factor\" is", wrong, "at most 1");
}

TEST(RotaryDecoderConfig, RefusesHeadsOfWhichNoChannelTurns) {
  const auto read = [](std::optional<double> part, const std::string& json) {
    nn::RotaryDecoderConfig config;
    config.partial_rotary_factor = part;
    config.read(Config::parse(json, "config.json"), "Family", "family");
    return config.rotary.turning(config.head_dim);
  };
  EXPECT_ERROR(read(0.1, R"({"head_dim": 8})"), WEFT_INVALID_ARGUMENT, "config.json",
               "\"partial_rotary_factor\" is 0.1", "\"head_dim\" 8", "no channel");
  EXPECT_ERROR(read({}, R"({"head_dim": 7})"), WEFT_INVALID_ARGUMENT, "\"head_dim\" is 7", "even");
  EXPECT_ERROR(read({}, R"({"head_dim": 8, "partial_rotary_factor": 0.5})"), WEFT_UNIMPLEMENTED,
               "this family turns all channels");
  EXPECT_EQ(read(0.25, R"({"head_dim": 8, "partial_rotary_factor": 0.5})"), 4);
  EXPECT_EQ(read(0.5, R"({"head_dim": 7})"), 4);
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
