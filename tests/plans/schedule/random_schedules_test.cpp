// Random schedules under random costs against the plainest way to say what must hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "schedule/check.hpp"
#include "schedule/make.hpp"
#include "schedule/text.hpp"
#include "support/seed.hpp"

namespace weft::test {

namespace {

using namespace pipeline;

constexpr int kTrials = 1000;

class RandomSchedule : public RandomTest {
 protected:
  uint32_t below(uint32_t limit) { return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random_); }
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  ScheduleRequest request() {
    const Style& style = styles()[below(static_cast<uint32_t>(styles().size()))];
    ScheduleRequest request{std::string(style.name), 1 + below(8), 1 + below(24), style.fewest_chunks};
    if (style.most_chunks > style.fewest_chunks) request.chunks += below(4);
    Costs costs = Costs::equal(request.stages * request.chunks, {}, below(2) * between(0, 1));
    for (StageCosts& stage : costs.virtual_stages)
      stage = {between(0, 2), between(0, 2), below(8) == 0 ? 0 : between(0, 2)};
    request.costs = std::move(costs);
    return request;
  }

  std::mt19937 random_{seed_};
};

uint32_t bound_of(const ScheduleRequest& request, uint32_t stage) {
  const uint32_t p = request.stages, m = request.micro_batches, v = request.chunks;
  if (request.style == "gpipe") return m;
  if (request.style == "1f1b") return std::min(m, p - stage);
  if (request.style == "zbh1") return std::min(m, p);
  if (request.style == "zbv") return 2 * std::min(m, p);
  const uint32_t groups = std::max(1U, m / p), group = (m + groups - 1) / groups;
  return std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * group + 1);
}

// What a forward or a backward of a micro-batch leaves: kind 0 or 1, virtual stage, micro-batch.
using Result = std::tuple<int, uint32_t, uint32_t>;

std::vector<Result> needs(const Schedule& schedule, uint32_t stage, const Operation& operation) {
  const uint32_t own = schedule.virtual_stage(stage, operation.chunk), last = schedule.virtual_stages() - 1;
  const uint32_t m = operation.micro_batch;
  std::vector<Result> needs;
  if (operation.kind == Kind::forward && own > 0) needs.push_back({0, own - 1, m});
  if (operation.kind == Kind::weight_gradient) needs.push_back({1, own, m});
  if (operation.kind == Kind::backward || operation.kind == Kind::input_gradient) {
    needs.push_back({0, own, m});
    if (own < last) needs.push_back({1, own + 1, m});
  }
  return needs;
}

void expect_order_of_times(const Schedule& schedule, const Costs& costs, const Simulation& times) {
  std::map<Result, double> ends;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    double free_at = 0;
    for (size_t index = 0; index < schedule.operations[stage].size(); ++index) {
      const Operation& operation = schedule.operations[stage][index];
      const Interval& time = times.stages[stage].operations[index];
      const uint32_t own = schedule.virtual_stage(stage, operation.chunk);
      ASSERT_GE(time.begin, free_at);
      ASSERT_NEAR(time.length(), costs.virtual_stages[own].of(operation.kind), 1e-9);
      free_at = time.end;
      if (operation.kind != Kind::weight_gradient)
        ends[{operation.kind != Kind::forward, own, operation.micro_batch}] = time.end;
    }
    ASSERT_LE(free_at, times.makespan);
  }
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    double free_at = 0;
    for (size_t index = 0; index < schedule.operations[stage].size(); ++index) {
      double earliest = free_at;
      for (const Result& need : needs(schedule, stage, schedule.operations[stage][index])) {
        const bool is_local = schedule.stage_of(std::get<1>(need)) == stage;
        earliest = std::max(earliest, ends.at(need) + (is_local ? 0 : costs.transfer));
      }
      const Interval& time = times.stages[stage].operations[index];
      ASSERT_EQ(time.begin, earliest) << "stage " << stage << ", operation " << index;
      free_at = time.end;
    }
  }
}

void expect_ascending_micro_batches(const Schedule& schedule) {
  for (const auto& operations : schedule.operations) {
    std::map<std::pair<Kind, uint32_t>, uint32_t> next;
    for (const Operation& operation : operations)
      ASSERT_EQ(operation.micro_batch, (next[{operation.kind, operation.chunk}]++));
  }
}

// Each boundary between stages carries each micro-batch once in both directions; what one side sends, the
// other one receives.
void expect_matching_transfers(const Schedule& schedule) {
  uint32_t boundaries = 0;
  for (uint32_t v = 0; v + 1 < schedule.virtual_stages(); ++v)
    boundaries += schedule.stage_of(v) != schedule.stage_of(v + 1);
  size_t sent = 0;
  for (uint32_t from = 0; from < schedule.stages; ++from) {
    for (uint32_t to = 0; to < schedule.stages; ++to) {
      const std::vector<Transfer> transfers = pipeline::transfers(schedule, from, to);
      sent += transfers.size();
      std::vector<Transfer> received;
      for (const Operation& operation : schedule.operations[to])
        if (const auto transfer = receive_of(schedule, to, operation); transfer && transfer->from == from)
          received.push_back(*transfer);
      ASSERT_TRUE(std::is_permutation(received.begin(), received.end(), transfers.begin(), transfers.end()));
    }
  }
  ASSERT_EQ(sent, size_t{2} * boundaries * schedule.micro_batches);
}

TEST_F(RandomSchedule, RunsToItsEndWithinItsMemory) {
  for (int trial = 0; trial < kTrials; ++trial) {
    const ScheduleRequest request = this->request();
    SCOPED_TRACE(testing::Message() << request.style << ", " << request.stages << " stages, "
                                    << request.micro_batches << " micro-batches, " << request.chunks
                                    << " chunks");
    const Schedule schedule = make_schedule(request);
    ASSERT_TRUE(problems(schedule).empty()) << problems(schedule).front();
    for (uint32_t stage = 0; stage < request.stages; ++stage)
      ASSERT_LE(peak_live(schedule, stage), bound_of(request, stage)) << "stage " << stage;
    expect_ascending_micro_batches(schedule);
    expect_order_of_times(schedule, *request.costs, simulate(schedule, *request.costs));
    expect_matching_transfers(schedule);
    const Schedule evaluation = forward_only(schedule);
    ASSERT_TRUE(problems(evaluation, Purpose::evaluation).empty());
    ASSERT_EQ(make_schedule(request), schedule);
    Schedule shape = schedule;
    shape.operations.clear();
    ASSERT_EQ(parse_rows(shape, rows(schedule), "rows"), schedule);
    if (HasFatalFailure()) return;
  }
}

TEST_F(RandomSchedule, FollowsTheCostsOfZbv) {
  int faster = 0;
  for (int trial = 0; trial < kTrials / 10; ++trial) {
    ScheduleRequest request = {"zbv", 2 + below(6), 1 + below(24), 2, {}};
    const double forward = between(0.5, 1.5), input = between(0.5, 1.5), weight = between(0.5, 1.5);
    const Costs costs = Costs::equal(2 * request.stages, {forward, input, weight}, between(0, 0.3));
    const double without = simulate(make_schedule(request), costs).makespan;
    request.costs = costs;
    const double with = simulate(make_schedule(request), costs).makespan;
    ASSERT_LE(with, without) << request.stages << " stages, " << request.micro_batches << " micro-batches";
    faster += with < 0.999 * without;
  }
  EXPECT_GT(faster, kTrials / 40);
}

// Tries again and again whether some stage can go on.
bool runs_to_its_end(const Schedule& schedule) {
  std::map<Result, bool> done;
  std::vector<size_t> next(schedule.stages);
  const auto advance = [&](uint32_t stage) {
    const auto& operations = schedule.operations[stage];
    if (next[stage] == operations.size()) return false;
    const Operation& operation = operations[next[stage]];
    for (const Result& need : needs(schedule, stage, operation))
      if (!done[need]) return false;
    const uint32_t own = schedule.virtual_stage(stage, operation.chunk);
    if (operation.kind != Kind::weight_gradient)
      done[{operation.kind != Kind::forward, own, operation.micro_batch}] = true;
    ++next[stage];
    return true;
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (uint32_t stage = 0; stage < schedule.stages; ++stage) moves |= advance(stage);
  }
  for (uint32_t stage = 0; stage < schedule.stages; ++stage)
    if (next[stage] != schedule.operations[stage].size()) return false;
  return true;
}

TEST_F(RandomSchedule, IsReportedWithTwoOperationsSwappedIfTheyDoNotRun) {
  int stuck = 0, right = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const ScheduleRequest request = this->request();
    Schedule schedule = make_schedule(request);
    auto& operations = schedule.operations[below(request.stages)];
    const auto count = static_cast<uint32_t>(operations.size());
    const uint32_t one = below(count), other = std::min(count - 1, one + below(6));
    std::swap(operations[one], operations[other]);
    const bool runs = runs_to_its_end(schedule);
    (runs ? right : stuck)++;
    ASSERT_EQ(problems(schedule).empty(), runs) << request.style << "\n" << rows(schedule);
  }
  EXPECT_GT(stuck, kTrials / 20);
  EXPECT_GT(right, kTrials / 20);
}

TEST_F(RandomSchedule, IsReportedWithAnOperationLostDoubledOrChanged) {
  for (int trial = 0; trial < kTrials; ++trial) {
    const ScheduleRequest request = this->request();
    Schedule schedule = make_schedule(request);
    auto& operations = schedule.operations[below(request.stages)];
    const auto victim = operations.begin() + below(static_cast<uint32_t>(operations.size()));
    const uint32_t fault = below(3);
    if (fault == 0) operations.erase(victim);
    if (fault == 1) operations.push_back(Operation(*victim));
    if (fault == 2) victim->micro_batch = (victim->micro_batch + 1 + below(3)) % (request.micro_batches + 3);
    ASSERT_FALSE(problems(schedule).empty()) << request.style << ", fault " << fault;
  }
}

}  // namespace

}  // namespace weft::test
