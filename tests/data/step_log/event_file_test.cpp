// Event files, byte for byte where the formats of TFRecord and protobuf are fixed, and the files of a step
// log on one rank.
#include "step_log/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "step_log/crc32c.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"
#include "weft/error.hpp"
#include "weft/step_log.hpp"

namespace weft::step_log {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using namespace std::string_literals;

// Returns what the function throws.
template <class Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string content(const fs::path& path) {
  return read_file(path, 1 << 20);
}

// The examples of RFC 3720, section B.4, and the check value of the catalogues of CRCs.
TEST(Crc32c, HasTheKnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising, falling;
  for (char byte = 0; byte < 32; ++byte) {
    rising += byte;
    falling.insert(falling.begin(), byte);
  }
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cu);
}

TEST(Event, IsTheMessageOfTheProtocol) {
  // 2.5 is 0x4004000000000000, 0.5 as a float 0x3f000000.
  const std::string time = "\x09\0\0\0\0\0\0\x04\x40"s;
  EXPECT_EQ(version_event(2.5), time + "\x1a\x0d" + "brain.Event:2");
  EXPECT_EQ(start_event(2.5, 300), time + "\x10\xac\x02" + "\x3a\x02\x08\x01");
  EXPECT_EQ(start_event(2.5, 0), time + "\x3a\x02\x08\x01");
  EXPECT_EQ(scalars_event(2.5, 1, {{"loss", 0.5}}),
            time + "\x10\x01" + "\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f"s);
}

TEST(Event, IsARecordWithLengthAndChecksums) {
  const std::string record = tf_record("123456789");
  EXPECT_EQ(record.substr(0, 8), "\x09\0\0\0\0\0\0\0"s);
  EXPECT_EQ(record.substr(12, 9), "123456789");
  // ((0xe3069283 >> 15) | (0xe3069283 << 17)) + 0xa282ead8, modulo 2^32
  EXPECT_EQ(record.substr(21), "\xe5\xb0\x8a\xc7"s);
}

const World& world_of_one() {
  static const World world = launch();
  return world;
}

class StepLogFiles : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
  const World& world_ = world_of_one();
};

TEST_F(StepLogFiles, AreRefusedWhereTheyCannotBeWritten) {
  const std::string file = folder_.file("file", "");
  EXPECT_THAT(refusal([&] { StepLog({.jsonl = "", .tensorboard = file}, world_); }),
              testing::StartsWith("tensorboard " + file + ": "));
  EXPECT_THAT(refusal([&] { StepLog({.jsonl = in("no/m.jsonl"), .tensorboard = ""}, world_); }),
              testing::StartsWith("jsonl " + in("no/m.jsonl") + ": "));
  EXPECT_EQ(content(file), "");
}

TEST_F(StepLogFiles, RefuseNamesThatJsonCannotHave) {
  StepLog log({.jsonl = in("m.jsonl"), .tensorboard = in("events")}, world_);
  EXPECT_THAT(refusal([&] { log.write(1, {}); }), testing::HasSubstr("begin() comes before"));
  log.begin();
  for (const char* name : {"", "step", "a/b/c"})
    EXPECT_NE(refusal([&] { log.write(1, {{"a/b", 1}, {name, 2}}); }), "") << name;
  EXPECT_EQ(content(in("m.jsonl")), "");
}

TEST_F(StepLogFiles, HaveTheValuesOfEachStep) {
  StepLog log({.jsonl = in("m.jsonl"), .tensorboard = in("new/events")}, world_);
  EXPECT_TRUE(log.wanted());
  log.begin();
  log.write(7, {{"loss", 0.5}, {"bytes/send", 3}, {"skipped", true}, {"norm", std::nan("")}});
  EXPECT_EQ(nlohmann::json::parse(content(in("m.jsonl"))),
            nlohmann::json::parse(
                R"({"step": 7, "loss": 0.5, "bytes": {"send": 3}, "skipped": true, "norm": null})"));
  // Before the log ends: a reader need not wait.
  const std::vector<fs::path> files = files_of(in("new/events"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_THAT(files[0].filename().string(), testing::StartsWith("events.out.tfevents."));
  EXPECT_THAT(content(files[0]), testing::HasSubstr("\x0a\x04loss\x15\0\0\0\x3f"s));
  EXPECT_THAT(content(files[0]), testing::HasSubstr("\x0a\x0a"
                                                    "bytes/send\x15\0\0\x40\x40"s));
}

TEST_F(StepLogFiles, HaveTextsInJsonAlone) {
  StepLog log({.jsonl = in("m.jsonl"), .tensorboard = in("events")}, world_);
  log.begin();
  log.write(1, {{"loss", 0.5}, {"plugins/first", "1.0.0"}});
  EXPECT_EQ(nlohmann::json::parse(content(in("m.jsonl"))),
            nlohmann::json::parse(R"({"step": 1, "loss": 0.5, "plugins": {"first": "1.0.0"}})"));
  EXPECT_THAT(content(files_of(in("events"))[0]), testing::Not(testing::HasSubstr("plugins")));
}

TEST_F(StepLogFiles, ComeLaterForALaterRunAndHideRepeatedSteps) {
  for (int run = 0; run < 3; ++run) {
    StepLog log({.jsonl = "", .tensorboard = in("events")}, world_);
    log.begin(run == 0 ? std::nullopt : std::optional<int64_t>(300 - run));
    log.write(301 - run, {{"loss", run}});
  }
  const std::vector<fs::path> files = files_of(in("events"));
  ASSERT_EQ(files.size(), 3u);  // within one second
  EXPECT_THAT(content(files[0]), testing::Not(testing::HasSubstr("\x10\xac\x02\x3a\x02\x08\x01")));
  EXPECT_THAT(content(files[1]), testing::HasSubstr("\x10\xac\x02\x3a\x02\x08\x01"));  // START at 300
  EXPECT_THAT(content(files[2]), testing::HasSubstr("\x10\xab\x02\x3a\x02\x08\x01"));
}

TEST_F(StepLogFiles, AreRemovedIfTheRunDidNotBegin) {
  { const StepLog log({.jsonl = "", .tensorboard = in("events")}, world_); }
  EXPECT_TRUE(files_of(in("events")).empty());
}

TEST_F(StepLogFiles, EndWithTheLastWholeRecordWhereTheDiskIsFull) {
  StepLog log({.jsonl = in("m.jsonl"), .tensorboard = in("events")}, world_);
  log.begin();
  const auto write = [&](int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; ++step) log.write(step, {{"loss", 0.5}});
  };
  EXPECT_TRUE(log.incomplete().empty());
  testing::internal::CaptureStderr();
  {
    const test::FileSizeLimit limit(2000);  // what is said has room
    write(1, 120);
  }
  write(120, 140);  // there is room again, but steps would be missing
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string lines = content(in("m.jsonl"));
  EXPECT_GT(lines.size(), 1900u);
  EXPECT_LE(lines.size(), 2000u);
  EXPECT_EQ(lines.back(), '\n');
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'),
            nlohmann::json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1)).at("step"));
  // 16 bytes around each event
  const std::string events = content(files_of(in("events")).at(0));
  const size_t size = tf_record(scalars_event(0, 1, {{"loss", 0}})).size(),
               begin = tf_record(version_event(0)).size() + tf_record(start_event(0, 0)).size();
  EXPECT_GT(events.size(), 1900u);
  EXPECT_EQ((events.size() - begin) % size, 0u);
  EXPECT_EQ(log.incomplete(),
            (std::vector<std::string>{"jsonl " + in("m.jsonl"), "tensorboard " + in("events")}));
  for (const std::string& name : log.incomplete())
    EXPECT_THAT(said, testing::HasSubstr(name + ": writing failed: File too large; "));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

}  // namespace
}  // namespace weft::step_log
