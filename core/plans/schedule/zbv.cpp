#include "schedule/zbv.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

namespace weft::pipeline {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr uint32_t kDescent = 0, kAscent = 1;  // the chunk on the way to the last stage, and back from it

// What a stage prefers when several operations can run. Forwards always run first: they give work to the
// stages that follow, and memory limits them.
struct Preference {
  // Until its last forward, a stage runs weight gradients before other input gradients. So all stages keep
  // one rhythm, which leaves no gaps if all operations cost the same.
  bool is_steady;
  uint32_t chunk;  // of input gradients
  // Otherwise a weight gradient runs if nothing else can for this part of its duration, 0: at once.
  double gap;
};

// Simulates all stages at once. A stage that is free chooses among the operations that can run at that time;
// what it runs is its schedule. Operations of one kind and chunk run in ascending order of micro-batches.
class Attempt {
 public:
  Attempt(uint32_t stages, uint32_t micro_batches, const Costs& costs, Preference preference)
      : costs_(costs),
        preference_(preference),
        schedule_{stages, micro_batches, 2, Placement::vee, {}},
        stages_(stages),
        states_(size_t{2} * stages, Arrivals(micro_batches, kNever)),
        gradients_(states_) {
    schedule_.operations.resize(stages);
    for (auto& operations : schedule_.operations) operations.reserve(size_t{6} * micro_batches);
    std::fill(states_[0].begin(), states_[0].end(), 0);
    for (uint32_t stage = 0; stage < stages; ++stage) wake(0, stage);
  }

  Schedule run() {
    while (!wakes_.empty()) {
      const auto [now, stage] = wakes_.top();
      wakes_.pop();
      if (stages_[stage].free_at <= now) choose(stage, now);
    }
    return std::move(schedule_);
  }

 private:
  using Arrivals = std::vector<double>;    // by micro-batch: when an operation has what it needs
  using Counts = std::array<uint32_t, 2>;  // by chunk

  struct Stage {
    double free_at = 0;
    Counts forwards = {}, inputs = {}, weights = {};  // how many are done
    uint32_t live = 0;
    uint32_t waiting_weights() const { return inputs[0] + inputs[1] - weights[0] - weights[1]; }
  };

  void wake(double time, uint32_t stage) { wakes_.emplace(time, stage); }

  double next_forward(uint32_t stage, uint32_t chunk) const {
    const uint32_t micro_batch = stages_[stage].forwards[chunk];
    if (micro_batch == schedule_.micro_batches) return kNever;
    return states_[schedule_.virtual_stage(stage, chunk)][micro_batch];
  }
  double next_input(uint32_t stage, uint32_t chunk) const {
    const Stage& own = stages_[stage];
    if (own.inputs[chunk] == own.forwards[chunk]) return kNever;
    return gradients_[schedule_.virtual_stage(stage, chunk)][own.inputs[chunk]];
  }

  bool has_room(const Stage& own, uint32_t chunk) const {
    const uint32_t limit = 2 * schedule_.stages;
    if (own.live >= limit) return false;
    // The descent leaves room for one activation of the ascent; a weight gradient can make room at any time.
    // So the oldest micro-batch always gets to the end of the V and comes back, and no stages wait for each
    // other.
    return chunk == kAscent || own.live - own.waiting_weights() + 2 <= limit;
  }

  void choose(uint32_t stage, double now) {
    const Stage& own = stages_[stage];
    bool lacks_room = false;
    std::optional<uint32_t> forward, input;
    for (const uint32_t chunk : {kAscent, kDescent}) {
      if (forward || lacks_room || next_forward(stage, chunk) > now) continue;
      if (has_room(own, chunk))
        forward = chunk;
      else
        lacks_room = own.waiting_weights() > 0;
    }
    for (const uint32_t chunk : {preference_.chunk, 1 - preference_.chunk})
      if (!input && next_input(stage, chunk) <= now) input = chunk;
    const bool has_weight = own.waiting_weights() > 0;
    const bool keeps_rhythm = preference_.is_steady && own.forwards[kAscent] < schedule_.micro_batches;
    if (forward)
      start(stage, now, Kind::forward, *forward);
    else if (has_weight && keeps_rhythm)
      start(stage, now, Kind::weight_gradient, next_weight(own));
    else if (input)
      start(stage, now, Kind::input_gradient, *input);
    else if (has_weight && (lacks_room || has_gap(stage, now)))
      start(stage, now, Kind::weight_gradient, next_weight(own));
  }

  // Returns the chunk whose weight gradients are behind, of those that can run one.
  static uint32_t next_weight(const Stage& own) {
    if (own.inputs[kAscent] == own.weights[kAscent]) return kDescent;
    if (own.inputs[kDescent] == own.weights[kDescent]) return kAscent;
    return own.weights[kAscent] <= own.weights[kDescent] ? kAscent : kDescent;
  }

  // Returns whether nothing but weight gradients can run for long enough.
  bool has_gap(uint32_t stage, double now) const {
    const Stage& own = stages_[stage];
    double next = std::min(next_input(stage, kDescent), next_input(stage, kAscent));
    for (const uint32_t chunk : {kDescent, kAscent})
      if (has_room(own, chunk)) next = std::min(next, next_forward(stage, chunk));
    const uint32_t virtual_stage = schedule_.virtual_stage(stage, next_weight(own));
    return next - now >= preference_.gap * costs_.virtual_stages[virtual_stage].weight_gradient;
  }

  void start(uint32_t stage, double now, Kind kind, uint32_t chunk) {
    Stage& own = stages_[stage];
    const uint32_t virtual_stage = schedule_.virtual_stage(stage, chunk);
    const double end = now + costs_.virtual_stages[virtual_stage].of(kind);
    uint32_t micro_batch = 0;
    if (kind == Kind::forward) {
      micro_batch = own.forwards[chunk]++;
      ++own.live;
      if (virtual_stage + 1 < schedule_.virtual_stages())
        send(states_, stage, virtual_stage + 1, micro_batch, end);
      else
        gradients_[virtual_stage][micro_batch] = end;  // of the loss
    } else if (kind == Kind::input_gradient) {
      micro_batch = own.inputs[chunk]++;
      if (virtual_stage > 0) send(gradients_, stage, virtual_stage - 1, micro_batch, end);
    } else {
      micro_batch = own.weights[chunk]++;
      --own.live;
    }
    schedule_.operations[stage].push_back({kind, micro_batch, chunk});
    own.free_at = end;
    wake(end, stage);
  }

  void send(std::vector<Arrivals>& arrivals, uint32_t stage, uint32_t virtual_stage, uint32_t micro_batch,
            double end) {
    const uint32_t to = schedule_.stage_of(virtual_stage);
    const double arrival = to == stage ? end : end + costs_.transfer;
    arrivals[virtual_stage][micro_batch] = arrival;
    wake(arrival, to);
  }

  const Costs& costs_;
  const Preference preference_;
  Schedule schedule_;
  std::vector<Stage> stages_;
  std::vector<Arrivals> states_, gradients_;  // by virtual stage that needs them
  std::priority_queue<std::pair<double, uint32_t>, std::vector<std::pair<double, uint32_t>>, std::greater<>>
      wakes_;  // time and stage, the earliest first
};

// Returns costs to make schedules with, which the true ones then judge. A stage that chooses an operation
// sees only what is there at that time; where transfers or uneven stages make it see little, it does better
// under simpler costs.
std::vector<Costs> assumed_costs(const Costs& costs) {
  const auto count = static_cast<uint32_t>(costs.virtual_stages.size());
  if (costs == Costs::equal(count)) return {costs};  // the others make the same schedules
  Costs prompt = costs;
  prompt.transfer = 0;
  StageCosts sum = {0, 0, 0};
  for (const StageCosts& stage : costs.virtual_stages)
    sum = {sum.forward + stage.forward, sum.input_gradient + stage.input_gradient,
           sum.weight_gradient + stage.weight_gradient};
  return {costs, prompt, Costs::equal(count, sum), Costs::equal(count)};
}

}  // namespace

Schedule make_zbv(uint32_t stages, uint32_t micro_batches, const Costs& costs) {
  Schedule best;
  double shortest = kNever;
  for (const Costs& assumed : assumed_costs(costs)) {
    for (const bool is_steady : {true, false}) {
      for (const double gap : {0., 0.5}) {
        for (const uint32_t chunk : {kDescent, kAscent}) {
          Schedule schedule = Attempt(stages, micro_batches, assumed, {is_steady, chunk, gap}).run();
          const double makespan = simulate(schedule, costs).makespan;
          if (makespan >= shortest) continue;  // of equals the first
          shortest = makespan;
          best = std::move(schedule);
        }
      }
    }
  }
  return best;
}

}  // namespace weft::pipeline
