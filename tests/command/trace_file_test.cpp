// The events of a trace as JSON.
#include "command/trace_file.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft::test {

namespace {

using nlohmann::json;

TEST(TraceFile, WritesSpansInTheirOrderAndSaysWhereItEnds) {
  trace::Recording recording;
  recording.events = {{"inner", "unit", 3500, 4000, 0, false, 2, -1},
                      {"sum \"all\"", "communication", 3600, 5000, 0, true, -1, 64},
                      {"outer", "operation", 3500, 4500, 0, false, -1, -1},
                      {"elsewhere", "unit", 3000, 3001, 7, false, -1, -1}};
  recording.full_at = 6000;
  const json events =
      json::parse("[" + command::trace_events(std::move(recording), 1, "rank 1, stage 1", 3000) + "]");
  const json expected = json::parse(R"([
    {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "rank 1, stage 1"}},
    {"ph": "M", "pid": 1, "tid": 0, "name": "thread_name", "args": {"name": "training"}},
    {"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "thread 7"}},
    {"ph": "X", "pid": 1, "tid": 7, "name": "elsewhere", "cat": "unit", "ts": 0.0, "dur": 0.001},
    {"ph": "X", "pid": 1, "tid": 0, "name": "outer", "cat": "operation", "ts": 0.5, "dur": 1.0},
    {"ph": "X", "pid": 1, "tid": 0, "name": "inner", "cat": "unit", "ts": 0.5, "dur": 0.5,
     "args": {"micro_batch": 2}},
    {"ph": "b", "pid": 1, "tid": 0, "name": "sum \"all\"", "cat": "communication", "ts": 0.6,
     "id2": {"local": "0x3"}, "args": {"bytes": 64}},
    {"ph": "e", "pid": 1, "tid": 0, "name": "sum \"all\"", "cat": "communication", "ts": 2.0,
     "id2": {"local": "0x3"}},
    {"ph": "i", "s": "p", "pid": 1, "tid": 0, "name": "not recorded from here on: 4 events", "ts": 3.0}])");
  EXPECT_EQ(events, expected) << events.dump(1);
}

}  // namespace

}  // namespace weft::test
