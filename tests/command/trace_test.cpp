// `weft train --trace`: what the ranks did, as the schedule says.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "command/command.hpp"

namespace weft::test {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;

class TraceCommand : public CommandTest {
 protected:
  // Trains two steps on two ranks.
  std::vector<json> traced(const Words& more) const {
    expect_success(train(Words{"-n", "2", "--strategy", "torch_ddp", "--steps", "2", "--batch-size", "6",
                               "--trace", in("trace.json")} +
                         more));
    return json::parse(read_bytes(in("trace.json"))).at("traceEvents").get<std::vector<json>>();
  }
};

std::vector<json> of_rank(const std::vector<json>& events, int rank, const std::string& category) {
  std::vector<json> found;
  for (const json& event : events)
    if (event.at("pid") == rank && event.value("cat", "") == category) found.push_back(event);
  return found;
}

Words names_of(const std::vector<json>& events) {
  Words names;
  for (const json& event : events) names.push_back(event.at("name"));
  return names;
}

double begin_of(const json& event) {
  return event.at("ts").get<double>();
}
double end_of(const json& event) {
  return begin_of(event) + event.value("dur", 0.0);
}

bool is_inside(const json& inner, const json& outer) {
  constexpr double kRounding = 0.01;  // of microseconds as decimal numbers
  return inner.at("tid") == outer.at("tid") && begin_of(inner) >= begin_of(outer) - kRounding &&
         end_of(inner) <= end_of(outer) + kRounding;
}

// Expects that each event of `inner` is inside exactly one of `outer`.
void expect_inside(const std::vector<json>& inner, const std::vector<json>& outer) {
  EXPECT_FALSE(inner.empty());
  for (const json& event : inner)
    EXPECT_EQ(std::count_if(outer.begin(), outer.end(), [&](const json& of) { return is_inside(event, of); }),
              1)
        << event;
}

// Expects that each transfer was sent before the other rank had waited for it. Returns how many there were.
int expect_sent_before_received(const std::vector<json>& events, int from, const std::string& content) {
  const int to = 1 - from;
  const auto all = [&](int rank, const std::string& category, const std::string& words) {
    std::vector<json> found = of_rank(events, rank, category);
    std::erase_if(found, [&](const json& event) {
      return event.at("name").get<std::string>().find(words) == std::string::npos;
    });
    return found;
  };
  const std::vector<json> sent = all(from, "transfer", "send the " + content + " of micro-batch "),
                          awaited = all(to, "waiting", "wait for the " + content + " of micro-batch ");
  EXPECT_EQ(sent.size(), awaited.size());
  for (size_t i = 0; i < std::min(sent.size(), awaited.size()); ++i) {
    EXPECT_EQ(sent[i].at("args"), awaited[i].at("args"));
    EXPECT_LT(begin_of(sent[i]), end_of(awaited[i])) << awaited[i];
  }
  return static_cast<int>(sent.size());
}

TEST_F(TraceCommand, HasTheOperationsOfTheSchedule) {
  const std::vector<json> events = traced({"-o", "pp_size=2", "-o", "num_microbatches=3"});
  const Words schedule[] = {{"F0", "F1", "B0", "F2", "B1", "B2"}, {"F0", "B0", "F1", "B1", "F2", "B2"}};
  for (int rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE(rank);
    const std::vector<json> operations = of_rank(events, rank, "operation"),
                            units = of_rank(events, rank, "unit"), steps = of_rank(events, rank, "step");
    EXPECT_EQ(names_of(operations), schedule[rank] + schedule[rank]);
    EXPECT_EQ(names_of(steps), (Words{"step 1", "step 2"}));
    expect_inside(operations, steps);
    expect_inside(units, operations);
    expect_inside(of_rank(events, rank, "optimizer"), steps);
    expect_inside(of_rank(events, rank, "transfer"), operations);
    EXPECT_EQ(of_rank(events, rank, "data").size(), 2u);
    // Each unit of the stage goes forward and backward for each micro-batch of each step.
    std::map<std::string, int> runs;
    for (const std::string& name : names_of(units)) ++runs[name];
    EXPECT_EQ(runs.size() % 2, 0u);
    for (const auto& [name, times] : runs) EXPECT_EQ(times, 6) << name;
  }
  EXPECT_EQ(expect_sent_before_received(events, 0, "State"), 6);
  EXPECT_EQ(expect_sent_before_received(events, 1, "gradients"), 6);
  const auto named = std::find_if(events.begin(), events.end(), [](const json& event) {
    return event.at("name") == "process_name" && event.at("pid") == 1;
  });
  ASSERT_NE(named, events.end());
  EXPECT_EQ(named->at("args").at("name"), "rank 1, stage 1");
}

TEST_F(TraceCommand, HasMicroBatchesOfTheSizeThatIsAskedFor) {
  const std::vector<json> events = traced({"-o", "pp_size=2", "--micro-batch-size", "2"});
  const Words step = {"F0", "F1", "B0", "F2", "B1", "B2"};
  EXPECT_EQ(names_of(of_rank(events, 0, "operation")), step + step);
}

TEST_F(TraceCommand, HasMicroBatchesAndCollectivesWithoutStages) {
  const std::vector<json> events = traced({"--accumulate", "2", "--recompute", "all"});
  for (int rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE(rank);
    const Words step = {"F0", "B0", "F1", "B1"};
    const std::vector<json> operations = of_rank(events, rank, "operation");
    EXPECT_EQ(names_of(operations), step + step);
    const std::vector<json> units = of_rank(events, rank, "unit");
    EXPECT_THAT(names_of(units), testing::Contains(testing::StartsWith("recompute ")));
    // What runs in the background begins and ends once.
    std::map<std::string, std::pair<json, json>> collectives;
    for (const json& event : of_rank(events, rank, "communication")) {
      auto& [begin, end] = collectives[event.at("id2").at("local").get<std::string>()];
      json& own = event.at("ph") == "b" ? begin : end;
      EXPECT_TRUE(own.is_null()) << event;
      own = event;
    }
    int reduced = 0;
    for (const auto& [id, of] : collectives) {
      ASSERT_FALSE(of.first.is_null() || of.second.is_null()) << id;
      EXPECT_LE(begin_of(of.first), begin_of(of.second));
      reduced += of.first.at("name").get<std::string>().starts_with("all_reduce") ? 1 : 0;
    }
    EXPECT_GT(reduced, 0);
  }
}

TEST_F(TraceCommand, IsRefusedWhereItCannotBeWritten) {
  const std::string path = in("none/trace.json");
  EXPECT_TRUE(refuses(train({"--strategy", "none", "--steps", "1", "--trace", path, "--output", in("out")}),
                      kFailed, {"--trace " + path, "No such file"}));
  EXPECT_FALSE(std::filesystem::exists(in("out") + "/config.json"));
  EXPECT_TRUE(
      refuses(train({"--strategy", "none", "--steps", "1", "--trace", ""}), kFailed, {"--trace is empty"}));
}

}  // namespace
}  // namespace weft::test
