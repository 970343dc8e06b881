// What a trace records, and that it ends.
#include "trace/trace.hpp"

#include <ATen/ATen.h>

#include <thread>

#include "support/launch_ranks.hpp"

namespace weft {
namespace {

using trace::Event;
using trace::Recorder;
using trace::Span;

void record(const char* name) {
  const Span span([&] { return trace::begin(name, "test"); });
}

std::vector<std::string> names_of(const trace::Recording& recording) {
  std::vector<std::string> names;
  for (const Event& event : recording.events) names.push_back(event.name);
  return names;
}

TEST(Trace, DescribesNothingWhileItIsOff) {
  int described = 0;
  const auto describe = [&] {
    ++described;
    return trace::begin("x", "test");
  };
  { const Span span(describe); }
  EXPECT_EQ(described, 0);
  Recorder::get().start(10);
  { const Span span(describe); }
  EXPECT_EQ(described, 1);
  EXPECT_EQ(Recorder::get().stop().events.size(), 1u);
  { const Span span(describe); }
  EXPECT_EQ(described, 1);
  EXPECT_TRUE(Recorder::get().stop().events.empty());
}

TEST(Trace, HasSpansInsideEachOther) {
  Recorder::get().start(10);
  {
    const Span outer([] { return trace::begin("outer", "test", 3, 8); });
    record("inner");
  }
  std::thread([] { record("elsewhere"); }).join();
  const trace::Recording recording = Recorder::get().stop();
  ASSERT_EQ(names_of(recording), (std::vector<std::string>{"inner", "outer", "elsewhere"}));
  const Event &inner = recording.events[0], &outer = recording.events[1];
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
  EXPECT_EQ(outer.micro_batch, 3);
  EXPECT_EQ(outer.bytes, 8);
  EXPECT_EQ(inner.thread, outer.thread);
  EXPECT_NE(inner.thread, recording.events[2].thread);
  EXPECT_FALSE(recording.full_at.has_value());
}

TEST(Trace, EndsWhenItIsFull) {
  Recorder::get().start(2);
  for (const char* name : {"a", "b", "c", "d"}) record(name);
  EXPECT_FALSE(trace::on());
  const trace::Recording recording = Recorder::get().stop();
  EXPECT_EQ(names_of(recording), (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(recording.full_at.has_value());
  EXPECT_GE(*recording.full_at, recording.events.back().end);
}

WEFT_RANKS_TEST(Trace, HasCollectivesFromTheirStartToTheirEnd, 2) {
  const at::Tensor tensor = at::ones({100});
  Recorder::get().start(10);
  Work work = world.communicator().all_reduce(tensor);
  record("meanwhile");
  work.wait();
  work.wait();  // has ended already
  const trace::Recording recording = Recorder::get().stop();
  const std::string group = " in \"" + world.communicator().name() + "\"";
  ASSERT_EQ(names_of(recording),
            (std::vector<std::string>{"meanwhile", "all_reduce" + group, "wait for all_reduce"}));
  const Event &meanwhile = recording.events[0], &reduced = recording.events[1], &waited = recording.events[2];
  EXPECT_TRUE(reduced.in_background);
  EXPECT_FALSE(waited.in_background);
  EXPECT_EQ(reduced.bytes, 400);
  EXPECT_LE(reduced.begin, meanwhile.begin);
  EXPECT_LE(meanwhile.end, waited.begin);
  EXPECT_LE(waited.begin, reduced.end);
  EXPECT_LE(reduced.end, waited.end);
  world.communicator().barrier();
}

}  // namespace
}  // namespace weft
