// What a stage may conclude about its sends, against the clocks of a replay.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/make.hpp"
#include "schedule/replay.hpp"
#include "schedule/transfer_order.hpp"

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
