// What a stage may conclude about its sends, against the clocks of a replay.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedule/check.hpp"
#include "schedule/make.hpp"
#include "schedule/replay.hpp"
#include "schedule/text.hpp"
#include "schedule/transfer_order.hpp"
#include "support/seed.hpp"

namespace weft::pipeline {

namespace {

// By stage: how many of its operations are known to have run.
using Clock = std::vector<size_t>;

void advance(Clock& clock, const Clock& other) {
  for (size_t stage = 0; stage < clock.size(); ++stage) clock[stage] = std::max(clock[stage], other[stage]);
}

// The sends that nothing has proven to have arrived.
struct Outcome {
  std::vector<std::vector<Transfer>> open;  // by stage, in the end
  size_t most_open = 0;
};

// Replays the schedule with vector clocks. Expects that a stage concludes only what it can know.
Outcome expect_sound_conclusions(const Schedule& schedule) {
  const TransferOrder order(schedule);
  std::vector<Clock> clocks(schedule.stages, Clock(schedule.stages));
  std::vector<std::pair<Transfer, Clock>> sent;
  Outcome outcome;
  outcome.open.resize(schedule.stages);
  replay(schedule, [&](uint32_t stage, size_t place) {
    const Operation& operation = schedule.operations[stage][place];
    if (const auto received = receive_of(schedule, stage, operation)) {
      const auto found =
          std::find_if(sent.begin(), sent.end(), [&](const auto& s) { return s.first == *received; });
      ASSERT_NE(found, sent.end());
      EXPECT_EQ(order.awaited_at(*received), place);
      advance(clocks[stage], found->second);
      std::erase_if(outcome.open[stage], [&](const Transfer& open) {
        const bool proven = order.proves(*received, open);
        // The other stage has run the operation that waited for it.
        if (proven) {
          EXPECT_GT(clocks[stage][open.to], order.awaited_at(open));
        }
        return proven;
      });
    }
    clocks[stage][stage] = place + 1;
    if (const auto transfer = send_of(schedule, stage, operation)) {
      EXPECT_EQ(order.sent_at(*transfer), place);
      sent.emplace_back(*transfer, clocks[stage]);
      outcome.open[stage].push_back(*transfer);
      outcome.most_open = std::max(outcome.most_open, outcome.open[stage].size());
    }
  });
  return outcome;
}

TEST(TransferOrder, ConcludesOnlyWhatIsKnown) {
  for (const Style& style : styles())
    for (const uint32_t stages : {2u, 3u, 4u})
      for (const uint32_t micro_batches : {1u, 2u, 5u, 8u}) {
        const uint32_t chunks = std::min(std::max(style.fewest_chunks, 2u), style.most_chunks);
        SCOPED_TRACE(std::string(style.name) + " " + std::to_string(stages) + " " +
                     std::to_string(micro_batches));
        const Schedule schedule = make_schedule({.style = std::string(style.name),
                                                 .stages = stages,
                                                 .micro_batches = micro_batches,
                                                 .chunks = chunks});
        // A State has arrived when its gradients come back.
        for (const std::vector<Transfer>& left : expect_sound_conclusions(schedule).open)
          for (const Transfer& open : left) EXPECT_EQ(open.content, Transfer::Content::gradients);
        expect_sound_conclusions(forward_only(schedule));
      }
}

// Makes schedules that no style makes: it runs operations that have what they need, drawn at random.
class RandomOrder : public test::RandomTest {
 protected:
  uint32_t below(uint32_t limit) { return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random_); }

  // Returns a shape with a random number of stages, micro-batches and chunks.
  Schedule shape() {
    Schedule shape{.stages = 2 + below(4), .micro_batches = 1 + below(8), .chunks = 1 + below(3)};
    if (shape.chunks == 2 && below(2) == 0) shape.placement = Placement::vee;
    return shape;
  }

  // Returns the text of a schedule of this shape.
  std::string rows_of(const Schedule& shape) {
    Schedule made = shape;
    made.operations.resize(shape.stages);
    // By virtual stage, how many micro-batches are done: forward, backward and second halves.
    std::vector<uint32_t> forwards(shape.virtual_stages()), backwards(forwards), halves(forwards);
    std::vector<bool> splits;
    std::vector<uint32_t> eagerness;  // how a stage prefers forwards
    for (uint32_t stage = 0; stage < shape.stages; ++stage) {
      splits.push_back(below(2) == 0);
      eagerness.push_back(1 + below(8));
    }
    const uint32_t last = shape.virtual_stages() - 1;
    for (;;) {
      std::vector<std::pair<Kind, uint32_t>> ready;  // with their virtual stages
      for (uint32_t v = 0; v <= last; ++v) {
        const uint32_t stage = shape.stage_of(v);
        if (forwards[v] < (v == 0 ? shape.micro_batches : forwards[v - 1]))
          ready.insert(ready.end(), eagerness[stage], {Kind::forward, v});
        if (backwards[v] < (v == last ? forwards[v] : backwards[v + 1]))
          ready.insert(ready.end(), 4, {splits[stage] ? Kind::input_gradient : Kind::backward, v});
        if (splits[stage] && halves[v] < backwards[v]) ready.emplace_back(Kind::weight_gradient, v);
      }
      if (ready.empty()) return rows(made);
      const auto [kind, v] = ready[below(static_cast<uint32_t>(ready.size()))];
      uint32_t& done = kind == Kind::forward           ? forwards[v]
                       : kind == Kind::weight_gradient ? halves[v]
                                                       : backwards[v];
      made.operations[shape.stage_of(v)].push_back({kind, done++, shape.chunk_of(v)});
    }
  }

  std::mt19937 random_{seed_};
};

TEST_F(RandomOrder, ConcludesOnlyWhatIsKnownOfAFile) {
  for (int trial = 0; trial < 500; ++trial) {
    const Schedule drawn = shape();
    const std::string text = rows_of(drawn);
    SCOPED_TRACE(text);
    const Schedule schedule = parse_rows(drawn, text, "random");
    ASSERT_NO_THROW(check_executable(schedule, "random"));
    for (const std::vector<Transfer>& left : expect_sound_conclusions(schedule).open)
      for (const Transfer& open : left) ASSERT_EQ(open.content, Transfer::Content::gradients);
    expect_sound_conclusions(forward_only(schedule));
    if (HasFailure()) return;
  }
}

// However many micro-batches there are, a stage keeps the tensors of few sends under 1F1B.
TEST(TransferOrder, LeavesAsManySendsOpenAsThereAreStagesUnder1F1B) {
  for (const uint32_t stages : {2u, 4u})
    for (const uint32_t micro_batches : {16u, 64u}) {
      const Schedule schedule =
          make_schedule({.style = "1f1b", .stages = stages, .micro_batches = micro_batches});
      EXPECT_EQ(expect_sound_conclusions(schedule).most_open, stages) << stages << " " << micro_batches;
    }
}

// In an evaluation no gradients come back, but the States of later chunks and micro-batches do.
TEST(TransferOrder, LeavesFewSendsOpenInAnEvaluationWithSeveralChunks) {
  for (const char* style : {"interleaved", "zbv"})
    for (const uint32_t stages : {2u, 3u, 4u}) {
      const Schedule schedule =
          make_schedule({.style = style, .stages = stages, .micro_batches = 64, .chunks = 2});
      EXPECT_LE(expect_sound_conclusions(forward_only(schedule)).most_open, 2 * stages + 1)
          << style << " " << stages;
    }
}

}  // namespace

}  // namespace weft::pipeline
