#include "schedule/make.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "schedule/zbv.hpp"

namespace weft::pipeline {

namespace {

// Of a schedule, so that neither its memory nor the time to make it gets out of hand.
constexpr uint64_t kMostOperations = uint64_t{1} << 24;

// Returns a schedule whose stages run `warm_up(stage)` forwards, then alternate, then finish the backwards.
template <class WarmUp>
Schedule alternate(const ScheduleRequest& request, const std::vector<Operation>& forwards,
                   const std::vector<Operation>& backwards, const WarmUp& warm_up) {
  Schedule schedule{request.stages, request.micro_batches, request.chunks, Placement::loop, {}};
  for (uint32_t stage = 0; stage < request.stages; ++stage) {
    const size_t first = std::min(forwards.size(), static_cast<size_t>(warm_up(stage)));
    std::vector<Operation> operations(forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(first));
    operations.reserve(forwards.size() + backwards.size());
    for (size_t next = 0; next < backwards.size(); ++next) {
      if (first + next < forwards.size()) operations.push_back(forwards[first + next]);
      operations.push_back(backwards[next]);
    }
    schedule.operations.push_back(std::move(operations));
  }
  return schedule;
}

std::vector<Operation> in_order(Kind kind, uint32_t micro_batches) {
  std::vector<Operation> operations;
  for (uint32_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch)
    operations.push_back({kind, micro_batch, 0});
  return operations;
}

Schedule make_gpipe(const ScheduleRequest& request) {
  return alternate(request, in_order(Kind::forward, request.micro_batches),
                   in_order(Kind::backward, request.micro_batches),
                   [&](uint32_t) { return request.micro_batches; });
}

Schedule make_1f1b(const ScheduleRequest& request) {
  return alternate(request, in_order(Kind::forward, request.micro_batches),
                   in_order(Kind::backward, request.micro_batches),
                   [&](uint32_t stage) { return request.stages - 1 - stage; });
}

// The weight gradients of stage s come s micro-batches later than in 1F1B, so that no stage keeps more
// activations than the first one, and fill the time in which it would wait for the last gradients.
Schedule make_zbh1(const ScheduleRequest& request) {
  Schedule schedule = make_1f1b(request);
  for (uint32_t stage = 0; stage < request.stages; ++stage) {
    std::vector<Operation> operations;
    uint32_t finished = 0;
    for (const Operation& operation : schedule.operations[stage]) {
      if (operation.kind == Kind::forward) {
        operations.push_back(operation);
        continue;
      }
      operations.push_back({Kind::input_gradient, operation.micro_batch, 0});
      if (operation.micro_batch >= stage) operations.push_back({Kind::weight_gradient, finished++, 0});
    }
    while (finished < request.micro_batches) operations.push_back({Kind::weight_gradient, finished++, 0});
    schedule.operations[stage] = std::move(operations);
  }
  return schedule;
}

Schedule make_interleaved(const ScheduleRequest& request) {
  // A group smaller than the number of stages would leave the first stage waiting for the last one between
  // two chunks, so what is left over makes the groups larger.
  const uint32_t groups = std::max(1U, request.micro_batches / request.stages);
  const uint32_t size = request.micro_batches / groups, larger = request.micro_batches % groups;
  std::vector<Operation> forwards, backwards;
  for (uint32_t group = 0, begin = 0; group < groups; ++group) {
    const uint32_t end = begin + size + (group < larger ? 1 : 0);
    for (uint32_t chunk = 0; chunk < request.chunks; ++chunk) {
      for (uint32_t micro_batch = begin; micro_batch < end; ++micro_batch) {
        forwards.push_back({Kind::forward, micro_batch, chunk});
        backwards.push_back({Kind::backward, micro_batch, request.chunks - 1 - chunk});
      }
    }
    begin = end;
  }
  const uint64_t first_group = size + (larger > 0 ? 1 : 0);
  return alternate(request, forwards, backwards, [&](uint32_t stage) {
    return uint64_t{2} * (request.stages - 1 - stage) + (request.chunks - 1) * first_group;
  });
}

Schedule make_zbv(const ScheduleRequest& request) {
  return make_zbv(request.stages, request.micro_batches,
                  request.costs ? *request.costs : Costs::equal(2 * request.stages));
}

struct Maker {
  Style style;
  Schedule (*make)(const ScheduleRequest&);
};

constexpr uint32_t kAnyNumber = std::numeric_limits<uint32_t>::max();

const std::vector<Maker>& makers() {
  static const std::vector<Maker> makers = {
      {{"1f1b", "one forward, one backward", 1, 1, Placement::loop, false}, make_1f1b},
      {{"interleaved", "1f1b over several chunks a stage", 2, kAnyNumber, Placement::loop, false},
       make_interleaved},
      {{"zbh1", "1f1b, backwards in two halves", 1, 1, Placement::loop, true}, make_zbh1},
      {{"zbv", "two chunks in a V, backwards in two halves", 2, 2, Placement::vee, true}, make_zbv},
      {{"gpipe", "all forwards, then all backwards", 1, 1, Placement::loop, false}, make_gpipe},
  };
  return makers;
}

const Maker& find_maker(std::string_view name) {
  std::vector<std::string> names;
  for (const Maker& maker : makers()) {
    if (maker.style.name == name) return maker;
    names.emplace_back(maker.style.name);
  }
  fail(WEFT_INVALID_ARGUMENT, "pp_style is \"{}\"{}; there are: {}", printable(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

// Returns the style that takes so many chunks, for an error's advice.
std::string_view style_for(uint32_t chunks) {
  return chunks == 1 ? "1f1b" : "interleaved";
}

void check_request(const ScheduleRequest& request, const Style& style) {
  const auto require_some = [](uint32_t value, const char* option) {
    if (value == 0) fail(WEFT_INVALID_ARGUMENT, "{} is 0, must be at least 1", option);
  };
  require_some(request.stages, "pp_size");
  require_some(request.micro_batches, "num_microbatches");
  require_some(request.chunks, "num_model_chunks");
  if (request.chunks < style.fewest_chunks || request.chunks > style.most_chunks)
    fail(WEFT_INVALID_ARGUMENT,
         "pp_style {} takes {} {} model chunk{} a stage, but num_model_chunks is {}; set it to {}, or "
         "pp_style to {}",
         style.name, style.most_chunks == kAnyNumber ? "at least" : "exactly", style.fewest_chunks,
         style.fewest_chunks == 1 ? "" : "s", request.chunks, style.fewest_chunks, style_for(request.chunks));
  const uint64_t kinds = style.splits_backward ? 3 : 2;
  const uint64_t most = kMostOperations / kinds / request.stages;
  if (uint64_t{request.micro_batches} * request.chunks > most || most == 0)
    fail(WEFT_INVALID_ARGUMENT,
         "pp_size {}, num_microbatches {} and num_model_chunks {} make more than {} operations; use larger "
         "micro-batches, so that a step has fewer",
         request.stages, request.micro_batches, request.chunks, kMostOperations);
  if (request.costs) check(*request.costs, request.stages * request.chunks);
}

}  // namespace

const std::vector<Style>& styles() {
  static const std::vector<Style> all = [] {
    std::vector<Style> styles;
    for (const Maker& maker : makers()) styles.push_back(maker.style);
    return styles;
  }();
  return all;
}

const Style& find_style(std::string_view name) {
  return find_maker(name).style;
}

Schedule make_schedule(const ScheduleRequest& request) {
  const Maker& maker = find_maker(request.style);
  check_request(request, maker.style);
  return maker.make(request);
}

}  // namespace weft::pipeline
