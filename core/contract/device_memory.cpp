// Rules of devices: memory.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "device/tensors.hpp"
#include "failure.hpp"

namespace weft::contract {

namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                                     at::kInt,   at::kChar,   at::kByte, at::kBool};

// Returns values of the type, among them those that arithmetic would change.
at::Tensor values_to_copy(int64_t elements, at::ScalarType dtype) {
  at::Tensor values = host_values({elements}, dtype);
  if (!at::isFloatingType(dtype) || elements < 8) return values;
  const double infinity = std::numeric_limits<double>::infinity();
  values.narrow(0, 1, 5).copy_(at::tensor({-0.0, std::nan(""), infinity, -infinity, 6e-8}, at::kDouble));
  return values;
}

void check_copies(Findings& findings) {
  for (const at::ScalarType dtype : kTypes)
    for (const int64_t elements : {0, 1, 7, 4099}) {
      const at::Tensor host = values_to_copy(elements, dtype);
      const auto look = [&](const char* rule, const at::Tensor& found) {
        findings.look(rule, within(fmt::format("{} elements of {}", elements, at::toString(dtype)),
                                   exact_difference(found, host)));
      };
      const at::Tensor copy = at::empty({elements}, on_it(dtype)).copy_(host);
      look("what is copied from host memory to the device and back has the same bits",
           at::empty_like(host).copy_(copy));
      look("what is copied from page-locked memory has the same bits", device::copy_to_device(host));
      look("what is copied on the device has the same bits", copy.clone());
    }
  const at::Tensor number = host_values({});
  findings.look("what is copied from host memory to the device and back has the same bits",
                within("a tensor without dimensions", exact_difference(there(number), number)));
}

// Returns views of a matrix of 6 x 8 elements whose memory has gaps, another order, or elements that occur
// several times.
std::vector<std::pair<std::string, std::function<at::Tensor(const at::Tensor&)>>> forms() {
  return {{"the transposed matrix", [](const at::Tensor& x) { return x.t(); }},
          {"some columns", [](const at::Tensor& x) { return x.narrow(1, 2, 3); }},
          {"every second column", [](const at::Tensor& x) { return x.slice(1, 0, 8, 2); }},
          {"one column", [](const at::Tensor& x) { return x.select(1, 5); }},
          {"a view with three dimensions",
           [](const at::Tensor& x) {
             return x.view({2, 3, 8}).permute({2, 0, 1});
           }},
          {"no rows", [](const at::Tensor& x) { return x.narrow(0, 3, 0); }}};
}

void check_strides(Findings& findings) {
  constexpr const char *kRead = "copies read views with any strides",
                       *kWrite = "copies write views with any strides";
  const at::Tensor host = host_values({6, 8}), far = there(host);
  for (const auto& [name, form] : forms()) {
    const at::Tensor expected = form(host).contiguous();
    findings.look(kRead, within(name + ", to the host",
                                exact_difference(at::empty_like(expected).copy_(form(far)), expected)));
    findings.look(kRead, within(name + ", to the device", exact_difference(there(form(host)), expected)));
    findings.look(kRead,
                  within(name + ", on the device", exact_difference(form(far).contiguous(), expected)));
    const at::Tensor written = at::zeros({6, 8}), target = at::zeros({6, 8}, on_it()),
                     also = at::zeros({6, 8}, on_it());
    form(written).copy_(expected);
    form(target).copy_(expected);
    form(also).copy_(there(expected));
    findings.look(kWrite, within(name + ", from the host", exact_difference(target, written)));
    findings.look(kWrite, within(name + ", on the device", exact_difference(also, written)));
    const at::Tensor back = at::zeros({6, 8});
    form(back).copy_(there(expected));
    findings.look(kWrite, within(name + ", to the host", exact_difference(back, written)));
  }
  const at::Tensor row = host_values({1, 5});
  findings.look(kRead, within("a row that is repeated",
                              exact_difference(there(row).expand({4, 5}), row.expand({4, 5}))));
}

void check_conversions(Findings& findings) {
  const std::pair<at::ScalarType, at::ScalarType> pairs[] = {
      {at::kFloat, at::kBFloat16}, {at::kFloat, at::kHalf},   {at::kBFloat16, at::kFloat},
      {at::kHalf, at::kFloat},     {at::kDouble, at::kFloat}, {at::kFloat, at::kDouble},
      {at::kLong, at::kFloat},     {at::kBool, at::kFloat},   {at::kByte, at::kLong}};
  for (const auto& [from, to] : pairs) {
    const at::Tensor host = host_values({1000}, from), expected = host.to(to);
    const std::string what = fmt::format("{} to {}", at::toString(from), at::toString(to));
    constexpr const char* kRule = "copies convert types as the host does";
    findings.look(kRule, within(what + ", on the device", exact_difference(there(host).to(to), expected)));
    findings.look(kRule, within(what + ", to the device",
                                exact_difference(at::empty({1000}, on_it(to)).copy_(host), expected)));
    findings.look(kRule, within(what + ", to the host",
                                exact_difference(at::empty({1000}, to).copy_(there(host)), expected)));
  }
}

void check_storage(Findings& findings) {
  constexpr const char* kKeeps = "a storage that is resized keeps the values that fit";
  constexpr int64_t kElements = 3000, kBytes = kElements * 4;
  const at::Tensor host = host_values({kElements}), far = there(host);
  const at::Tensor half = far.narrow(0, 0, kElements / 2);
  device::resize_storage(far, 2 * kBytes);
  findings.look(kKeeps, within("made larger", exact_difference(far, host)));
  device::resize_storage(far, kBytes / 2);
  findings.look(kKeeps, within("made smaller", exact_difference(half, host.narrow(0, 0, kElements / 2))));
  constexpr const char* kBack = "a storage that is resized to 0 and back can be used";
  for (int round = 0; round < 3; ++round) {
    device::resize_storage(far, 0);
    device::resize_storage(far, kBytes);
    far.copy_(host);
    findings.look(kBack, exact_difference(far, host));
  }
}

// Sizes are whole blocks of a caching allocator, so that others are not rounded up to them.
void check_use(Findings& findings) {
  constexpr int64_t kBytes = 40 << 20;
  device::reset_peak();
  const device::MemoryUse before = device::memory_use();
  at::Tensor tensor = at::empty({kBytes}, on_it(at::kByte));
  const device::MemoryUse during = device::memory_use();
  const auto bytes = [](int64_t count) { return format_bytes(count); };
  constexpr const char* kCounts = "memory in use is counted";
  findings.look(kCounts, during.used - before.used >= kBytes
                             ? ""
                             : fmt::format("a tensor of {} raised it by {}", bytes(kBytes),
                                           bytes(during.used - before.used)));
  findings.look(kCounts, during.capacity.value_or(0) >= during.used
                             ? ""
                             : fmt::format("{} are in use, but the device says that it has {}",
                                           bytes(during.used), bytes(during.capacity.value_or(0))));
  device::resize_storage(tensor, 0);
  const int64_t resized = device::memory_use().used;
  findings.look("a storage that is resized to 0 frees its memory",
                resized <= before.used
                    ? ""
                    : fmt::format("{} more are in use than before", bytes(resized - before.used)));
  tensor = at::Tensor();
  for (int round = 0; round < 4; ++round) at::empty({kBytes}, on_it(at::kByte));
  const device::MemoryUse after = device::memory_use();
  findings.look("memory of tensors that are gone is free",
                after.used <= before.used
                    ? ""
                    : fmt::format("{} more are in use than before", bytes(after.used - before.used)));
  findings.look(
      "the peak of the memory in use is kept",
      after.peak >= during.used && after.peak >= after.used
          ? ""
          : fmt::format("{} were in use, but the peak is {}", bytes(during.used), bytes(after.peak)));
  device::reset_peak();
  const device::MemoryUse reset = device::memory_use();
  findings.look("the peak of the memory in use is kept",
                reset.peak == reset.used ? ""
                                         : fmt::format("it is {} when {} are in use and it was reset",
                                                       bytes(reset.peak), bytes(reset.used)));
}

void check_apart(Findings& findings) {
  const at::Tensor host = host_values({1000});
  TensorList far;
  for (int i = 0; i < 20; ++i) far.push_back(there(host + i));
  for (int i = 0; i < 20; ++i)
    findings.look(
        "tensors have memory of their own",
        within(fmt::format("tensor {} of 20", i), exact_difference(far[static_cast<size_t>(i)], host + i)));
  findings.look("fill and zero write every element",
                exact_difference(at::full({33}, 2.5, on_it()), at::full({33}, 2.5)));
  findings.look("fill and zero write every element",
                exact_difference(at::empty({33}, on_it()).zero_(), at::zeros({33})));
}

}  // namespace

void check_memory(const World&, Findings& findings) {
  check_copies(findings);
  check_strides(findings);
  check_conversions(findings);
  check_apart(findings);
  check_storage(findings);
  check_use(findings);
}

void check_memory_limit(const World&, Findings& findings) {
  const device::Device& device = device::current();
  if (device.kind().limit_memory == nullptr)
    return findings.note("a limit of memory", "not offered: WEFT_ACCELERATOR_MEMORY is refused");
  constexpr int64_t kLimit = 64 << 20;
  device.kind().limit_memory(device.place().index(), kLimit);
  constexpr const char* kRefused = "more memory than the limit is refused, and said to be used up";
  const auto refused = [&](const char* what, const std::function<void()>& take) {
    std::string problem = "a tensor of twice the limit is given";
    try {
      take();
    } catch (const c10::OutOfMemoryError&) {
      problem = "";
    } catch (const std::exception& exception) {
      const Failure failure = describe(exception);
      problem = failure.status == WEFT_RESOURCE_EXHAUSTED ? "" : "it is another error: " + failure.text;
    }
    findings.look(kRefused, within(what, problem));
  };
  refused("as a tensor", [&] { at::empty({2 * kLimit}, on_it(at::kByte)); });
  refused("without a tensor", [&] { device::allocate(2 * kLimit); });
  refused("in parts", [&] {
    TensorList parts;
    for (int i = 0; i < 8; ++i) parts.push_back(at::empty({kLimit / 4}, on_it(at::kByte)));
  });
  std::string problem;
  try {
    for (int round = 0; round < 6; ++round) {
      const at::Tensor half = at::zeros({kLimit / 2}, on_it(at::kByte));
      half.add_(1);
    }
  } catch (const std::exception& exception) {
    problem = describe(exception).text;
  }
  findings.look("memory that was freed is given again", problem);
  findings.look("the device computes after memory was refused",
                exact_difference(at::full({9}, 2.0, on_it()) + 1, at::full({9}, 3.0)));
}

}  // namespace weft::contract
