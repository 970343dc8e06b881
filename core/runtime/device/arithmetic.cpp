#include "device/arithmetic.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <optional>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "weft/error.hpp"

namespace weft::device {

namespace {

std::optional<bool> chosen_tf32;

// The device's libraries read the variable when they are first used, and libtorch refuses matrix products
// without it.
void set_variable_of(const Kind& kind) {
  if (kind.deterministic_variable == nullptr) return;
  const std::vector<std::string> values = split(kind.deterministic_values, ' ');
  set_environment_default(kind.deterministic_variable, values.front().c_str());
  const std::string found = environment(kind.deterministic_variable).value_or("");
  if (std::find(values.begin(), values.end(), found) == values.end())
    fail(WEFT_FAILED_PRECONDITION,
         "deterministic: the environment variable {} is \"{}\", but the device {} computes the same bits at "
         "every run only with {}; unset it, or leave deterministic out",
         kind.deterministic_variable, printable(found), kind.name, fmt::join(values, " or "));
}

}  // namespace

void make_deterministic() {
  set_variable_of(current().kind());
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Libraries that libtorch calls for convolutions have settings of their own. A benchmark chooses the
  // algorithm by time, so by chance.
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicMkldnn(true);
}

void allow_tf32(bool allowed) {
  if (chosen_tf32.value_or(allowed) != allowed)
    fail(WEFT_FAILED_PRECONDITION,
         "allow_tf32 is {}, but an earlier Booster of this process has {}, and libtorch has one setting for "
         "a process; give all Boosters the same, or start another process",
         allowed, *chosen_tf32);
  if (allowed && !chosen_tf32) {
    const Kind& kind = current().kind();
    const std::string why = kind.allow_tf32 == nullptr ? fmt::format("the device {} has no TF32", kind.name)
                                                       : kind.allow_tf32(current().place().index());
    if (!why.empty())
      fail(WEFT_UNIMPLEMENTED, "allow_tf32 is true, but has no effect: {}; leave it out", why);
  }
  chosen_tf32 = allowed;
}

}  // namespace weft::device
