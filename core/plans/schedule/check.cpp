#include "schedule/check.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "schedule/replay.hpp"

namespace weft::pipeline {

namespace {

// Finds what one stage runs twice, too early or not at all.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, uint32_t stage, Purpose purpose, std::vector<std::string>& problems)
      : schedule_(schedule),
        stage_(stage),
        purpose_(purpose),
        problems_(problems),
        done_(size_t{schedule.chunks} * schedule.micro_batches) {}

  void run() {
    const std::vector<Operation>& operations = schedule_.operations[stage_];
    for (size_t index = 0; index < operations.size(); ++index) add(index, operations[index]);
    for (uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk)
      for (uint32_t micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch)
        require_complete(chunk, micro_batch);
  }

 private:
  static constexpr uint8_t kForward = 1, kInput = 2, kWeight = 4;

  uint8_t& done(uint32_t chunk, uint32_t micro_batch) {
    return done_[size_t{chunk} * schedule_.micro_batches + micro_batch];
  }

  void add(size_t index, const Operation& operation) {
    uint8_t& before = done(operation.chunk, operation.micro_batch);
    const uint8_t adds = operation.kind == Kind::forward          ? kForward
                         : operation.kind == Kind::backward       ? kInput | kWeight
                         : operation.kind == Kind::input_gradient ? kInput
                                                                  : kWeight;
    const char* mistake = nullptr;
    if (purpose_ == Purpose::evaluation && operation.kind != Kind::forward)
      mistake = "an evaluation has forwards only";
    else if ((before & adds) != 0)
      mistake = "an earlier operation has done it";
    else if (adds != kForward && (before & kForward) == 0)
      mistake = "its forward comes later or never";
    else if (adds == kWeight && (before & kInput) == 0)
      mistake = "its input gradient comes later or never";
    if (mistake != nullptr)
      problems_.push_back(fmt::format("stage {}, operation {}, {}: {}", stage_, index,
                                      name_of(operation, schedule_.chunks), mistake));
    before |= adds;
  }

  void require_complete(uint32_t chunk, uint32_t micro_batch) {
    const uint8_t found = done(chunk, micro_batch);
    const auto require = [&](uint8_t part, Kind kind) {
      if ((found & part) == 0)
        problems_.push_back(fmt::format("stage {} never runs {}", stage_,
                                        describe({kind, micro_batch, chunk}, schedule_.chunks)));
    };
    require(kForward, Kind::forward);
    if (purpose_ == Purpose::evaluation) return;
    if ((found & (kInput | kWeight)) == 0) return require(kInput | kWeight, Kind::backward);
    require(kInput, Kind::input_gradient);
    require(kWeight, Kind::weight_gradient);
  }

  const Schedule& schedule_;
  const uint32_t stage_;
  const Purpose purpose_;
  std::vector<std::string>& problems_;
  std::vector<uint8_t> done_;  // by chunk and micro-batch
};

std::vector<std::string> range_problems(const Schedule& schedule) {
  if (schedule.stages == 0 || schedule.micro_batches == 0 || schedule.chunks == 0)
    return {fmt::format("it has {} stages, {} micro-batches and {} chunks, each must be at least 1",
                        schedule.stages, schedule.micro_batches, schedule.chunks)};
  if (schedule.placement == Placement::vee && schedule.chunks != 2)
    return {fmt::format("it has {} chunks, must have 2 to be placed in a V", schedule.chunks)};
  if (schedule.operations.size() != schedule.stages)
    return {fmt::format("it lists the operations of {} stages, must list those of {}",
                        schedule.operations.size(), schedule.stages)};
  std::vector<std::string> problems;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    const auto& operations = schedule.operations[stage];
    for (size_t index = 0; index < operations.size(); ++index)
      if (operations[index].micro_batch >= schedule.micro_batches ||
          operations[index].chunk >= schedule.chunks)
        problems.push_back(fmt::format("stage {}, operation {}, {}: there are {} micro-batches and {} chunks",
                                       stage, index, name_of(operations[index], schedule.chunks),
                                       schedule.micro_batches, schedule.chunks));
  }
  return problems;
}

void throw_first(const std::vector<std::string>& problems, const std::string& who) {
  constexpr size_t kShown = 5;
  if (problems.empty()) return;
  const std::vector<std::string> shown(
      problems.begin(), problems.begin() + static_cast<ptrdiff_t>(std::min(problems.size(), kShown)));
  std::string text = fmt::format("{}", fmt::join(shown, "; "));
  if (shown.size() < problems.size()) text += fmt::format("; and {} more", problems.size() - shown.size());
  fail(WEFT_INVALID_ARGUMENT, "{}: {}", who, text);
}

}  // namespace

std::vector<std::string> problems(const Schedule& schedule, Purpose purpose) {
  std::vector<std::string> problems = range_problems(schedule);
  if (!problems.empty()) return problems;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage)
    StageCheck(schedule, stage, purpose, problems).run();
  if (!problems.empty()) return problems;  // a stage may wait for what is missing
  const auto visited = replay(schedule, [](uint32_t, size_t) {});
  if (const std::string deadlock = describe_deadlock(schedule, visited); !deadlock.empty())
    problems.push_back("stages wait for each other: " + deadlock);
  return problems;
}

void check(const Schedule& schedule, const std::string& who, Purpose purpose) {
  throw_first(problems(schedule, purpose), who);
}

void check_executable(const Schedule& schedule, const std::string& who) {
  std::vector<std::string> problems;
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    std::map<std::pair<Kind, uint32_t>, uint32_t> latest;  // micro-batch, by kind and chunk
    for (const Operation& operation : schedule.operations[stage]) {
      const auto before =
          latest.try_emplace(std::pair(operation.kind, operation.chunk), operation.micro_batch).first;
      if (operation.micro_batch < before->second)
        problems.push_back(
            fmt::format("stage {} runs {} after that of micro-batch {}, but must take the micro-batches of a "
                        "chunk in ascending order, so that all layouts sum gradients in the same order",
                        stage, describe(operation, schedule.chunks), before->second));
      before->second = operation.micro_batch;
    }
    const auto has = [&](Kind kind) {
      return std::any_of(latest.begin(), latest.end(),
                         [&](const auto& found) { return found.first.first == kind; });
    };
    if (has(Kind::backward) && has(Kind::input_gradient))
      problems.push_back(fmt::format(
          "stage {} has whole backwards (B) and backwards in halves (I and W), must have one kind "
          "only",
          stage));
  }
  throw_first(problems, who);
}

void check_ranges(const Schedule& schedule) {
  throw_first(range_problems(schedule), "pipeline schedule");
}

}  // namespace weft::pipeline
