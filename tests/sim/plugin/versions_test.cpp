// Two versions of the library of a device side by side: a job names one of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command/command.hpp"
#include "command/newer_plugin.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class DeviceVersions : public CommandTest {
 public:
  ~DeviceVersions() override { unsetenv("XDG_DATA_HOME"); }

 protected:
  DeviceVersions() {
    setenv("XDG_DATA_HOME", in("home").c_str(), 1);
    const fs::path newer = make_newer(fs::path(WEFT_BUILT_DEVICE) / kOld, in("newer"));
    expect_success({"plugins", "install", newer.string()});
  }

  Words job(const std::string& device) const {
    return train({"--strategy", "none", "--steps", "1", "--output", in("out"), "--device", device});
  }
  // Trains and saves. Returns the version of the device that the saved folder names.
  std::string trained_on(const std::string& device) const {
    fs::remove_all(in("out"));
    const Output output = expect_success(job(device));
    const json state = json::parse(text_of(in("out/training_state/state.json")));
    EXPECT_EQ(state["device"], "sim") << "whatever the version";
    for (const json& plugin : state["plugins"])
      if (plugin["kind"] == "device") {
        EXPECT_THAT(output.error, HasSubstr("sim " + plugin["version"].get<std::string>()));
        return plugin["version"];
      }
    return "none";
  }
};

TEST_F(DeviceVersions, AreRefusedWhereTheyAreNotThere) {
  EXPECT_TRUE(refuses(job("sim@0.3"), 1, {"device sim@0.3", "version 0.3", kNew}));
  EXPECT_TRUE(refuses(job("sim@"), 1, {"\"sim@\""}));
  EXPECT_TRUE(refuses(job("cpu@0.1"), 1, {"device cpu@0.1", "no version"}));
  EXPECT_TRUE(refuses(job("@0.1"), 1, {"device @0.1", "no default device"}));
  EXPECT_TRUE(refuses(job("other@0.1"), 1, {"device other@0.1", "sdk/docs/devices.md"}));
}

TEST_F(DeviceVersions, AreChosenByAJob) {
  EXPECT_EQ(trained_on("sim"), kNew);
  EXPECT_EQ(trained_on("sim@0.1"), kOld);
  EXPECT_THAT(text_of(in("out/training_state/job.yaml")), HasSubstr("device: \"sim@0.1\"\n"));
  EXPECT_EQ(trained_on("sim@=0.2.0"), kNew);
  expect_success({"plugins", "pin", "sim@0.1"});
  EXPECT_EQ(trained_on("sim"), kOld);
  EXPECT_EQ(trained_on("sim@0"), kNew);
}

TEST_F(DeviceVersions, MustBeTheSameOnAllRanks) {
  fs::copy(in("home"), in("home1"), fs::copy_options::recursive);
  expect_success({"plugins", "pin", "sim@0.1"});
  const auto two_ranks_with = [this](const std::string& device) {
    const std::string job = fmt::format(
        "XDG_DATA_HOME={}$([ $RANK = 0 ] || echo 1) exec {} train --model {} --data {} --strategy torch_ddp "
        "--steps 1 --device {}",
        in("home"), WEFT_PROGRAM, config_, data_, device);
    return Words{"run", "-n", "2", "sh", "-c", job};
  };
  const std::vector<std::string> ranks = {"rank 0 has", "rank 1 has", kOld, kNew, "device sim"};
  EXPECT_TRUE(refuses(two_ranks_with("sim"), 1, ranks));
  EXPECT_EQ(weft_command(two_ranks_with("sim@0.1")).exit_code, 0);
  EXPECT_TRUE(refuses(two_ranks_with("sim@0.$((RANK + 1))"), 1,
                      {"--device: rank 0 has sim@0.1, rank 1 has sim@0.2"}));
}

}  // namespace
}  // namespace weft::test
