#include "device/arithmetic.hpp"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/put.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "failure.hpp"
#include "stand_in.hpp"
#include "support/expect_error.hpp"

namespace weft::test {
namespace {

constexpr const char* kVariable = "WEFT_TEST_WORKSPACE";

// Makes `kind` the device of this process while it lives, and libtorch as it was when it ends.
class Arithmetic : public testing::Test {
 protected:
  Arithmetic() {
    kind_.deterministic_variable = kVariable;
    kind_.deterministic_values = ":4096:8 :16:8";
    unsetenv(kVariable);
  }
  ~Arithmetic() override {
    device::use(before_);
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicCuDNN(false);
    at::globalContext().setDeterministicMkldnn(false);
    at::globalContext().setAllowTF32CuBLAS(false);
    unsetenv(kVariable);
  }
  void use() { device::use(device::Device(kind_)); }

  device::Kind kind_ = kStandIn;

 private:
  const device::Device before_ = device::current();
};

TEST_F(Arithmetic, WithAVariableThatContradictsIsRefused) {
  use();
  setenv(kVariable, ":0:0", 1);
  EXPECT_ERROR(device::make_deterministic(), WEFT_FAILED_PRECONDITION,
               "environment variable WEFT_TEST_WORKSPACE is \":0:0\"", "device stand_in",
               "only with :4096:8 or :16:8; unset it");
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  setenv(kVariable, ":16:8", 1);
  device::make_deterministic();
  EXPECT_STREQ(getenv(kVariable), ":16:8");
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
}

TEST_F(Arithmetic, SetsAllThatLibtorchAndTheDeviceNeed) {
  use();
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(true);
  device::make_deterministic();
  EXPECT_STREQ(getenv(kVariable), ":4096:8");
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_TRUE(context.deterministicMkldnn());
  EXPECT_FALSE(context.benchmarkCuDNN());
}

TEST_F(Arithmetic, NeedsNoVariableOnTheCpu) {
  device::make_deterministic();
  EXPECT_EQ(getenv(kVariable), nullptr);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
}

TEST_F(Arithmetic, DescribesAnOperationThatIsNotDeterministic) {
  const auto put = [] { at::put(at::zeros({3}), at::arange(2), at::zeros({2})); };
  EXPECT_NO_THROW(put());
  device::make_deterministic();
  try {
    put();
    FAIL() << "libtorch computes put in deterministic mode";
  } catch (const std::exception& error) {
    const Failure failure = describe(error);
    EXPECT_EQ(failure.status, WEFT_UNIMPLEMENTED);
    for (const char* part : {"put_", "on cpu", "--deterministic", "booster's options"})
      EXPECT_NE(failure.text.find(part), std::string::npos) << failure.text;
  }
}

// The choice is the process's, so one test has the whole sequence.
TEST_F(Arithmetic, HasTf32WhereTheDeviceDoesAndOneChoiceInAProcess) {
  EXPECT_ERROR(device::allow_tf32(true), WEFT_UNIMPLEMENTED, "allow_tf32 is true", "no effect", "device cpu",
               "no TF32");
  use();
  EXPECT_ERROR(device::allow_tf32(true), WEFT_UNIMPLEMENTED, "the device stand_in has no TF32");
  kind_.allow_tf32 = [](c10::DeviceIndex) { return std::string("it is too old"); };
  EXPECT_ERROR(device::allow_tf32(true), WEFT_UNIMPLEMENTED, "no effect", "too old");
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  kind_.allow_tf32 = [](c10::DeviceIndex) {
    at::globalContext().setAllowTF32CuBLAS(true);
    return std::string();
  };
  device::allow_tf32(true);
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_NO_THROW(device::allow_tf32(true));
  EXPECT_ERROR(device::allow_tf32(false), WEFT_FAILED_PRECONDITION, "allow_tf32 is false", "Booster",
               "has true");
}

}  // namespace
}  // namespace weft::test
