#include "schedule/text.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "schedule/check.hpp"

namespace weft::pipeline {

namespace {

std::string row(const std::vector<Operation>& operations, uint32_t chunks) {
  std::string text;
  for (const Operation& operation : operations)
    text += (text.empty() ? "" : " ") + name_of(operation, chunks);
  return text;
}

std::optional<uint32_t> parse_number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Reads "F3" or "F3.1".
std::optional<Operation> parse_operation(std::string_view word) {
  if (word.empty()) return std::nullopt;
  const size_t kind = kKindLetters.find(word.front());
  const size_t dot = word.find('.');
  const auto micro_batch = parse_number(word.substr(1, dot == word.npos ? dot : dot - 1));
  const auto chunk = dot == word.npos ? std::optional<uint32_t>(0) : parse_number(word.substr(dot + 1));
  if (kind == kKindLetters.npos || !micro_batch || !chunk) return std::nullopt;
  return Operation{static_cast<Kind>(kind), *micro_batch, *chunk};
}

std::string without_comments(std::string_view text) {
  std::string kept;
  bool in_comment = false;
  for (const char c : text) {
    in_comment = c == '#' || (in_comment && c != '\n');
    if (!in_comment) kept += c;
  }
  return kept;
}

// Returns how many micro-batches the operations have. A stage that lacks one is found by `check`.
uint32_t count_micro_batches(const Schedule& schedule, const std::string& who) {
  uint32_t count = 0;
  for (uint32_t stage = 0; stage < schedule.operations.size(); ++stage) {
    const std::vector<Operation>& operations = schedule.operations[stage];
    for (const Operation& operation : operations) {
      // A number far too large must not take memory for all micro-batches below it.
      if (uint64_t{operation.micro_batch} * schedule.chunks >= operations.size())
        fail(WEFT_INVALID_ARGUMENT,
             "{}: {} on stage {}: a stage has a forward and a backward of each micro-batch in each of its {} "
             "chunks, and this one has {} operations only",
             who, name_of(operation, schedule.chunks), stage, schedule.chunks, operations.size());
      count = std::max(count, operation.micro_batch + 1);
    }
  }
  return count;
}

std::string counted(uint32_t number, std::string_view name) {
  return fmt::format("{} {}{}", number, name, number == 1 ? "" : name.ends_with("ch") ? "es" : "s");
}

std::string legend(const Schedule& schedule) {
  bool splits = false;
  for (const auto& operations : schedule.operations)
    for (const Operation& operation : operations) splits |= operation.kind == Kind::input_gradient;
  std::string text = splits ? "F forward, I input gradient, W weight gradient" : "F forward, B backward";
  text += " of a micro-batch";
  if (schedule.chunks > 1) text += "; F3.1: of micro-batch 3 in chunk 1";
  return text + ". Activations: the most that a stage keeps at once, each of one micro-batch in one chunk";
}

}  // namespace

std::string rows(const Schedule& schedule) {
  std::string text;
  for (const auto& operations : schedule.operations) text += row(operations, schedule.chunks) + "\n";
  return text;
}

Schedule parse_rows(Schedule shape, std::string_view text, const std::string& who) {
  shape.operations.clear();
  std::string lines = without_comments(text);
  std::replace(lines.begin(), lines.end(), ';', '\n');
  for (const std::string& line : split(lines, '\n')) {
    if (trim(line).empty()) continue;
    std::vector<Operation> operations;
    std::string words = line;
    std::replace_if(
        words.begin(), words.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');
    for (const std::string& word : split(words, ' ')) {
      const auto operation = parse_operation(word);
      if (!operation)
        fail(WEFT_INVALID_ARGUMENT,
             "{}: \"{}\", word {} of stage {}, is no operation; write F, B, I or W, the micro-batch, and "
             "a dot and the chunk if a stage has several: F0 or F0.1",
             who, printable(word, 40), operations.size() + 1, shape.operations.size());
      operations.push_back(*operation);
    }
    shape.operations.push_back(std::move(operations));
  }
  if (shape.micro_batches == 0) shape.micro_batches = count_micro_batches(shape, who);
  check(shape, who);
  return shape;
}

std::string explain(const Schedule& schedule, const Simulation& simulation, std::string_view title) {
  std::string text =
      fmt::format("schedule    {}: {}, {}, {} a stage; bubble {:.1f} %\n", title,
                  counted(schedule.stages, "stage"), counted(schedule.micro_batches, "micro-batch"),
                  counted(schedule.chunks, "chunk"), 100 * simulation.bubble());
  text += fmt::format("  {:<5}  {:>7}  {:>11}  operations\n", "stage", "works", "activations");
  for (uint32_t stage = 0; stage < schedule.stages; ++stage) {
    const double part = simulation.makespan > 0 ? simulation.stages[stage].busy / simulation.makespan : 0;
    text += fmt::format("  {:<5}  {:>5.1f} %  {:>11}  {}\n", stage, 100 * part, peak_live(schedule, stage),
                        row(schedule.operations[stage], schedule.chunks));
  }
  return text + fmt::format("  {}\n", legend(schedule));
}

}  // namespace weft::pipeline
