// The suite for devices passes the simulated accelerator, and names what is wrong with each of many wrong
// ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "contract/device.hpp"
#include "device/device.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/slice.hpp"

namespace weft::contract {
namespace {

using testing::HasSubstr;

struct Mistake {
  const char* name;
  const char* check;      // one that fails
  const char* text = "";  // a part of what it says
};

// Ends a suite whose failing check was seen.
struct Seen {};

void choose(const std::string& mistake) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  setenv("WEFT_LOG", "off", 1);
  setenv("WEFT_TEST_MISTAKE", mistake.c_str(), 1);
}

std::vector<Check> checks_of(const std::string& mistake) {
  choose(mistake);
  std::vector<Check> checks;
  check_device("wrong", [&](const Check& check) { checks.push_back(check); });
  return checks;
}

std::string failed(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks)
    if (!check.passed) text += "  " + check.name + ": " + check.text + "\n";
  return text;
}

// Returns all checks, a line each.
std::string listed(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks)
    text += check.name + (check.passed ? ": " : ": FAILED: ") + check.text + "\n";
  return text;
}

// Returns the text of a check that passed; "" if there is none.
std::string text_of(const std::vector<Check>& checks, const std::string& name) {
  const auto found =
      std::find_if(checks.begin(), checks.end(), [&](const Check& check) { return check.name == name; });
  return found != checks.end() && found->passed ? found->text : "";
}

const std::vector<Mistake> kMistakes = {
    {"has another name", "the table: its table has the name of the device", "it is right"},
    {"has no device and lacks nothing", "the table: where there is no device, it says what is missing",
     "count() is 0"},
    {"tells facts in capitals", "the table: its facts have names in lower_case, and values", "Driver"},
    {"loses the last element",
     "memory: what is copied from host memory to the device and back has the same bits", "element 6 of 7"},
    {"rounds doubles", "memory: what is copied from host memory to the device and back has the same bits",
     "of Double"},
    {"ignores strides", "memory: copies read views with any strides", "the transposed matrix, to the host"},
    {"takes bytes for truth values", "memory: copies convert types as the host does", "Bool to Float"},
    {"gives the same memory twice", "memory: tensors have memory of their own", "tensor 0 of 20"},
    {"resizes without the values", "memory: a storage that is resized keeps the values that fit",
     "made larger"},
    {"keeps freed memory", "memory: memory of tensors that are gone is free", "200.0 MiB"},
    {"counts no memory", "memory: memory in use is counted", "0 bytes"},
    {"keeps the peak", "memory: the peak of the memory in use is kept", "it was reset"},
    {"ignores the limit", "limited memory: more memory than the limit is refused, and said to be used up",
     "twice the limit"},
    {"forgets the order of a stream", "streams: the work of a stream is done in its order", "element 0"},
    {"ignores events", "streams: a stream that waits for an event sees the work before it",
     "is 1, must be 26"},
    {"does not wait for events", "streams: the host that waits for an event sees the work before it", "nan"},
    {"does not wait for streams", "streams: the host that waits for a stream sees its work", "nan"},
    {"does not wait for all work", "streams: the host that waits for the device sees all work", "nan"},
    {"says too early that work is done", "streams: an event that says that it is done is done", "nan"},
    {"ignores seeds", "random numbers: the same seed gives the same random numbers", "uniform numbers"},
    {"draws the same again", "random numbers: another seed gives other random numbers", "uniform numbers"},
    {"restores no random state",
     "random numbers: a random state that is restored gives the same numbers again", "uniform numbers"},
    {"draws from the host's generator",
     "random numbers: what the device draws leaves the generator of the host as it is"},
    {"scales a product", "computing: matrix products are those of the host", "about 1.05 of the right one"},
    {"ignores autocast", "computing: autocast computes matrix products in its type, and only while it is on",
     "must be of BFloat16"},
    {"scales the gradient of a norm",
     "operators of layers: weft::layer_norm_backward gives the values of the host",
     "Float: result 1: wrong by up to"},
    {"scales a gated unit", "operators of layers: weft::gated gives the values of the host",
     "about 1.05 of the right one"},
    {"has masks of its own", "operators of layers: weft::bernoulli_ gives the values of the host"},
    {"sums in half precision", "operators of layers: weft::column_sums gives the values of the host",
     "Half: result 1"},
    {"decays twice", "operators of optimizers: weft::adam_ gives the values of the host", "Float: result 3"},
    {"replays nothing", "graphs: a replay computes what eager work computes", "the first replay"},
    {"replays once", "graphs: a replay computes what eager work computes", "the second replay"},
    {"runs what it captures", "graphs: what is captured does not run"},
    {"averages", "2 ranks, a device each: all_reduce sums over the ranks", "of Float"},
    {"sums half precision in parts", "2 ranks, a device each: all_reduce sums over the ranks", "of Half"},
    {"sums for the largest", "2 ranks, a device each: all_reduce takes the largest of the ranks"},
    {"takes the largest for the smallest",
     "2 ranks, a device each: all_reduce takes the smallest of the ranks"},
    {"broadcasts from rank 0", "2 ranks, a device each: broadcast gives the values of the root", "root 1"},
    {"loses the end of messages", "2 ranks, a device each: all_gather concatenates the parts of the ranks"},
    {"swaps two parts", "3 ranks, a device each: all_gather concatenates the parts of the ranks"},
    {"sends no part of a sum", "2 ranks, a device each: reduce_scatter gives each rank its part of the sum"},
    {"sends no part of one row", "2 ranks, a device each: all_to_all takes parts of unequal sizes"},
    {"fails silently", "2 ranks, a device each: runs to its end", "it was lost"},
    {"scales the gradient of tanh", "training, 1 rank: fp32: gradients are those of the CPU", "step 1"},
};

TEST(DeviceSuite, PassesARightOne) {
  const std::vector<Check> checks = checks_of("none");
  EXPECT_EQ(failed(checks), "");
  EXPECT_GT(checks.size(), 150u) << listed(checks);
  EXPECT_THAT(text_of(checks, "operators of layers: operators of weft/device_operators.hpp"),
              HasSubstr("are offered"));
}

// Copies that nobody waits for are not done: what the suite orders is enough.
TEST(DeviceSuite, PassesOneThatWorksLate) {
  EXPECT_EQ(failed(checks_of("works late")), "");
}

TEST(DeviceSuite, SaysWhatIsNotOffered) {
  const std::vector<Check> checks = checks_of("has little to offer");
  EXPECT_EQ(failed(checks), "");
  for (const char* const name : {"limited memory: a limit of memory", "computing: TF32", "graphs: graphs"})
    EXPECT_THAT(text_of(checks, name), HasSubstr("not offered")) << name;
}

TEST(DeviceSuite, LeavesOutWhatTheMachineOrTheDeviceHasNot) {
  setenv("WEFT_SIM_DEVICES", "1", 1);
  const std::vector<Check> one = checks_of("none");
  unsetenv("WEFT_SIM_DEVICES");
  EXPECT_EQ(failed(one), "");
  EXPECT_THAT(text_of(one, "2 ranks, a device each: left out"), HasSubstr("1 of 2 devices"));
  const std::vector<Check> without = checks_of("communicates through the host");
  EXPECT_EQ(failed(without), "");
  EXPECT_THAT(text_of(without, "3 ranks, a device each: left out"), HasSubstr("no communication backend"));
}

TEST(DeviceSuite, IsOneRefusalWhereTheDeviceIsMissing) {
  const std::vector<Check> checks = checks_of("lacks a driver");
  EXPECT_EQ(failed(checks), "");
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].name, "the table: is refused on all ranks alike");
  EXPECT_THAT(checks[0].text, HasSubstr("there is no driver on this machine"));
  EXPECT_THAT(checks[0].text, HasSubstr("on a machine that has one"));
}

TEST(DeviceSuite, NamesEachMistake) {
  std::vector<std::string> names;
  names.reserve(kMistakes.size());
  for (const Mistake& mistake : kMistakes) names.emplace_back(mistake.name);
  const std::vector<std::string> drawn = test::slice("wrong devices", names, 14);
  for (const Mistake& mistake : kMistakes) {
    if (std::find(drawn.begin(), drawn.end(), mistake.name) == drawn.end()) continue;
    SCOPED_TRACE(mistake.name);
    choose(mistake.name);
    std::vector<Check> checks;
    const auto take = [&](const Check& check) {
      checks.push_back(check);
      if (!check.passed && check.name == mistake.check && check.text.find(mistake.text) != std::string::npos)
        throw Seen();
    };
    EXPECT_THROW(check_device("wrong", take), Seen) << "wanted: " << mistake.check << ", found:\n"
                                                    << failed(checks);
  }
}

// A process has one device, and a second library of it would not load beside the first.
TEST(DeviceVersion, IsOneInAProcess) {
  choose("none");
  test::on_ranks({1}, [](World&) {
    device::use("wrong@0.1");
    EXPECT_EQ(device::current().kind().name, std::string("wrong"));
    device::use("wrong@0.1");
    device::use("wrong");
    EXPECT_ERROR(device::use("wrong@=0.1.0"), WEFT_FAILED_PRECONDITION,
                 "computes on sim:0 of wrong@0.1 already");
  });
  test::on_ranks({1}, [](World&) {
    device::use("wrong");
    EXPECT_ERROR(device::use("wrong@0.1"), WEFT_FAILED_PRECONDITION, "computes on sim:0 already");
    EXPECT_ERROR(device::use("cpu"), WEFT_FAILED_PRECONDITION, "one device");
  });
  test::on_ranks({1}, [](World&) {
    EXPECT_ERROR(device::use("cpu@1"), WEFT_INVALID_ARGUMENT, "no version");
    EXPECT_ERROR(device::use("wrong@7"), WEFT_NOT_FOUND, "version 7");
    EXPECT_EQ(device::count("wrong@0.1"), 8);
  });
}

}  // namespace
}  // namespace weft::contract
