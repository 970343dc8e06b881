#include "schedule/schedule.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::pipeline {

namespace {

constexpr const char* kWords[] = {"forward", "backward", "input gradient", "weight gradient"};

bool goes_forward(const Operation& operation) {
  return operation.kind == Kind::forward;
}

// Returns the transfer of `content` over a boundary, or nothing if both of its sides are on one stage.
std::optional<Transfer> over(const Schedule& schedule, uint32_t boundary, uint32_t micro_batch,
                             Transfer::Content content) {
  uint32_t from = schedule.stage_of(boundary), to = schedule.stage_of(boundary + 1);
  if (from == to) return std::nullopt;
  if (content == Transfer::Content::gradients) std::swap(from, to);
  return Transfer{content, micro_batch, boundary, from, to};
}

}  // namespace

uint32_t Schedule::virtual_stage(uint32_t stage, uint32_t chunk) const {
  const uint32_t place = placement == Placement::vee && chunk % 2 == 1 ? stages - 1 - stage : stage;
  return chunk * stages + place;
}

uint32_t Schedule::stage_of(uint32_t virtual_stage) const {
  const uint32_t place = virtual_stage % stages;
  return placement == Placement::vee && chunk_of(virtual_stage) % 2 == 1 ? stages - 1 - place : place;
}

std::optional<Transfer> receive_of(const Schedule& schedule, uint32_t stage, const Operation& operation) {
  if (operation.kind == Kind::weight_gradient) return std::nullopt;
  const uint32_t own = schedule.virtual_stage(stage, operation.chunk);
  if (goes_forward(operation)) {
    if (own == 0) return std::nullopt;
    return over(schedule, own - 1, operation.micro_batch, Transfer::Content::state);
  }
  if (own + 1 == schedule.virtual_stages()) return std::nullopt;
  return over(schedule, own, operation.micro_batch, Transfer::Content::gradients);
}

std::optional<Transfer> send_of(const Schedule& schedule, uint32_t stage, const Operation& operation) {
  if (operation.kind == Kind::weight_gradient) return std::nullopt;
  const uint32_t own = schedule.virtual_stage(stage, operation.chunk);
  if (goes_forward(operation)) {
    if (own + 1 == schedule.virtual_stages()) return std::nullopt;
    return over(schedule, own, operation.micro_batch, Transfer::Content::state);
  }
  if (own == 0) return std::nullopt;
  return over(schedule, own - 1, operation.micro_batch, Transfer::Content::gradients);
}

std::vector<Transfer> transfers(const Schedule& schedule, uint32_t from, uint32_t to) {
  std::vector<Transfer> sent;
  for (const Operation& operation : schedule.operations[from])
    if (const auto transfer = send_of(schedule, from, operation); transfer && transfer->to == to)
      sent.push_back(*transfer);
  return sent;
}

Schedule forward_only(const Schedule& schedule) {
  Schedule forwards = schedule;
  for (std::vector<Operation>& stage : forwards.operations)
    stage.erase(
        std::remove_if(stage.begin(), stage.end(), [](const Operation& o) { return !goes_forward(o); }),
        stage.end());
  return forwards;
}

std::string name_of(const Operation& operation, uint32_t chunks) {
  const char letter = kKindLetters[static_cast<size_t>(operation.kind)];
  const bool names_chunk = chunks > 1 || operation.chunk > 0;
  return names_chunk ? fmt::format("{}{}.{}", letter, operation.micro_batch, operation.chunk)
                     : fmt::format("{}{}", letter, operation.micro_batch);
}

std::string describe(const Operation& operation, uint32_t chunks) {
  const std::string text = fmt::format("the {} of micro-batch {}",
                                       kWords[static_cast<size_t>(operation.kind)], operation.micro_batch);
  return chunks > 1 ? fmt::format("{} in chunk {}", text, operation.chunk) : text;
}

}  // namespace weft::pipeline
