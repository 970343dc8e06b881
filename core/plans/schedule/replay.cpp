#include "schedule/replay.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::pipeline {

namespace {

class Replay {
 public:
  Replay(const Schedule& schedule, const std::function<void(uint32_t, size_t)>& visit)
      : schedule_(schedule),
        visit_(visit),
        done_(size_t{3} * schedule.virtual_stages() * schedule.micro_batches),
        visited_(schedule.stages),
        is_waiting_(schedule.stages, true) {}

  std::vector<size_t> run() {
    for (uint32_t stage = schedule_.stages; stage-- > 0;) runnable_.push_back(stage);
    while (!runnable_.empty()) {
      const uint32_t stage = runnable_.back();
      runnable_.pop_back();
      is_waiting_[stage] = false;
      advance(stage);
    }
    return std::move(visited_);
  }

 private:
  size_t place(const Need& need) const {
    const size_t row = static_cast<size_t>(need.what) * schedule_.virtual_stages() + need.virtual_stage;
    return row * schedule_.micro_batches + need.micro_batch;
  }
  bool has(const std::optional<Need>& need) const { return !need || done_[place(*need)]; }

  // Runs the operations of a stage until one has to wait.
  void advance(uint32_t stage) {
    const std::vector<Operation>& operations = schedule_.operations[stage];
    for (size_t& index = visited_[stage]; index < operations.size(); ++index) {
      const Operation& operation = operations[index];
      if (!has(need_of_itself(schedule_, stage, operation)) ||
          !has(need_of_neighbour(schedule_, stage, operation)))
        return;
      visit_(stage, index);
      finish(stage, operation);
    }
  }

  void finish(uint32_t stage, const Operation& operation) {
    const uint32_t own = schedule_.virtual_stage(stage, operation.chunk);
    const auto mark = [&](Need::What what) { done_[place({what, own, operation.micro_batch})] = true; };
    if (operation.kind == Kind::forward) mark(Need::What::forward);
    if (operation.kind == Kind::input_gradient) mark(Need::What::input_gradient);
    if (operation.kind == Kind::input_gradient || operation.kind == Kind::backward)
      mark(Need::What::gradient);
    const auto transfer = send_of(schedule_, stage, operation);
    if (!transfer || is_waiting_[transfer->to]) return;
    is_waiting_[transfer->to] = true;
    runnable_.push_back(transfer->to);
  }

  const Schedule& schedule_;
  const std::function<void(uint32_t, size_t)>& visit_;
  std::vector<bool> done_;  // by what, virtual stage, micro-batch
  std::vector<size_t> visited_;
  std::vector<bool> is_waiting_;  // in runnable_
  std::vector<uint32_t> runnable_;
};

bool provides(const Operation& operation, const Need& need) {
  if (operation.micro_batch != need.micro_batch) return false;
  if (need.what == Need::What::forward) return operation.kind == Kind::forward;
  return operation.kind == Kind::input_gradient ||
         (need.what == Need::What::gradient && operation.kind == Kind::backward);
}

// The operation at which a stage waits, and what it waits for.
struct Wait {
  std::string text;
  std::optional<uint32_t> other;  // the stage that provides it later in its list; nothing: it is in no list
};

Wait wait_of(const Schedule& schedule, const std::vector<size_t>& visited, uint32_t stage) {
  const Operation& waiting = schedule.operations[stage][visited[stage]];
  const auto provider_of = [&](const Need& need) {
    const uint32_t other = schedule.stage_of(need.virtual_stage);
    const auto& list = schedule.operations[other];
    const uint32_t chunk = schedule.chunk_of(need.virtual_stage);
    const auto found = std::find_if(list.begin(), list.end(), [&](const Operation& operation) {
      return operation.chunk == chunk && provides(operation, need);
    });
    return std::make_pair(other, static_cast<size_t>(found - list.begin()));
  };
  for (const auto& need :
       {need_of_itself(schedule, stage, waiting), need_of_neighbour(schedule, stage, waiting)}) {
    if (!need) continue;
    const auto [other, index] = provider_of(*need);
    if (index < visited[other]) continue;
    const bool exists = index < schedule.operations[other].size();
    const Kind kind = need->what == Need::What::forward ? Kind::forward : Kind::input_gradient;
    const Operation wanted = exists
                                 ? schedule.operations[other][index]
                                 : Operation{kind, need->micro_batch, schedule.chunk_of(need->virtual_stage)};
    std::string text =
        fmt::format("stage {} waits at operation {} ({}) for {} of stage {}", stage, visited[stage],
                    name_of(waiting, schedule.chunks), name_of(wanted, schedule.chunks), other);
    text += exists ? fmt::format(" (operation {})", index) : std::string(", which is not in its list");
    return {text, exists ? std::optional(other) : std::nullopt};
  }
  return {};
}

}  // namespace

std::optional<Need> need_of_neighbour(const Schedule& schedule, uint32_t stage, const Operation& operation) {
  const uint32_t own = schedule.virtual_stage(stage, operation.chunk);
  switch (operation.kind) {
    case Kind::forward:
      if (own == 0) return std::nullopt;
      return Need{Need::What::forward, own - 1, operation.micro_batch};
    case Kind::weight_gradient:
      return std::nullopt;
    default:
      if (own + 1 == schedule.virtual_stages()) return std::nullopt;
      return Need{Need::What::gradient, own + 1, operation.micro_batch};
  }
}

std::optional<Need> need_of_itself(const Schedule& schedule, uint32_t stage, const Operation& operation) {
  if (operation.kind == Kind::forward) return std::nullopt;
  const bool is_second_half = operation.kind == Kind::weight_gradient;
  return Need{is_second_half ? Need::What::input_gradient : Need::What::forward,
              schedule.virtual_stage(stage, operation.chunk), operation.micro_batch};
}

std::vector<size_t> replay(const Schedule& schedule,
                           const std::function<void(uint32_t stage, size_t index)>& visit) {
  return Replay(schedule, visit).run();
}

std::string describe_deadlock(const Schedule& schedule, const std::vector<size_t>& visited) {
  uint32_t stage = 0;
  while (stage < schedule.stages && visited[stage] == schedule.operations[stage].size()) ++stage;
  if (stage == schedule.stages) return "";
  // A stage waits for one that waits as well, so after as many steps as there are stages we are in the
  // circle.
  for (uint32_t step = 0; step < schedule.stages; ++step) {
    const Wait wait = wait_of(schedule, visited, stage);
    if (!wait.other) return wait.text;
    stage = *wait.other;
  }
  std::vector<uint32_t> circle;
  for (; circle.empty() || stage != circle.front(); stage = *wait_of(schedule, visited, stage).other)
    circle.push_back(stage);
  std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
  std::vector<std::string> texts;
  for (const uint32_t waiting : circle) texts.push_back(wait_of(schedule, visited, waiting).text);
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace weft::pipeline
