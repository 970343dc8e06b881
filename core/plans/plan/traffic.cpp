#include "plan/traffic.hpp"

#include <algorithm>

#include "axes/segments.hpp"
#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/problems.hpp"
#include "plan/sequences.hpp"

namespace weft::plan {
namespace {

using Kind = Transfer::Kind;

// Returns the collectives that the residual stream for these sizes calls for a transfer.
std::vector<Message> messages_of(Kind kind, const ParallelSizes& sizes) {
  using enum Message::Pass;
  using enum Message::Amount;
  using enum Collective;
  const SequenceMode& mode = sequence_mode_of(sizes);
  switch (kind) {
    case Kind::kEnterLinear:
    case Kind::kEnterLinearShared:
      return mode.regions.enter_linear;
    case Kind::kEnter:
      return mode.regions.enter;
    case Kind::kLeaveLinear:
      return mode.regions.leave_linear;
    case Kind::kLeave:
      return mode.regions.leave;
    case Kind::kSplit:
      return {{kBackward, kAllGather, kPart}};
    case Kind::kEnd:
      return {{kForward, kAllGather, kPart}};
    case Kind::kAttend:
    case Kind::kAttendSource:
      return {{kForward, mode.attention.collective, kAttention},
              {kBackward, mode.attention.collective, kAttention}};
    case Kind::kEnterHead:
      return {{kBackward, kAllReduce, kHead}};
    case Kind::kLogits:
      return {{kForward, kAllGather, kHead}};
    case Kind::kLoss:
      return {{kForward, kAllReduce, kHead}};
    case Kind::kGradients:
    case Kind::kSharedGradients:
    case Kind::kOwnGradients:
      return {{kBackward, kAllReduce, kGradients}};
  }
  return {};
}

// Returns the bytes that a rank sends in a ring all-reduce of `bytes`.
int64_t reduced(int64_t bytes, int64_t ranks) {
  return 2 * bytes * (ranks - 1) / ranks;
}

Segments segments_of(const ParallelSizes& sizes) {
  return {splits_over_tensor_axis(sizes) ? sizes.tensor : sizes.sequence, sequence_mode_of(sizes).order};
}

// Counts the bytes that the first rank sends.
class Counter {
 public:
  Counter(const Plan& plan, const TrafficShape& shape)
      : plan_(plan), shape_(shape), segments_(segments_of(plan.sizes)), size_(shape.element_size) {
    heads_own_positions_ = plan.sizes.sequence > 1 && states(plan, Fact::kOwnPositions);
  }

  SentBytes run() {
    SentBytes sent = {};
    for (const PlannedTransfer& transfer : plan_.transfers)
      for (const Message& message : messages_of(transfer.kind, plan_.sizes)) {
        // The loss is no part of a module, so it is not recomputed.
        const bool again = message.pass == Message::Pass::kForward && transfer.kind != Kind::kLoss &&
                           shape_.recomputed.contains(transfer.path);
        sent[static_cast<size_t>(message.collective)] += (again ? 2 : 1) * bytes_of(transfer, message);
      }
    return sent;
  }

 private:
  const SequenceShape& sequence(const std::string& name) const {
    const auto found = std::find_if(shape_.sequences.begin(), shape_.sequences.end(),
                                    [&](const SequenceShape& known) { return known.name == name; });
    if (found != shape_.sequences.end()) return *found;
    fail(WEFT_INVALID_ARGUMENT,
         "the plan of {} sends positions of the sequence \"{}\", whose length is unknown", plan_.architecture,
         name);
  }

  int64_t bytes_of(const PlannedTransfer& transfer, const Message& message) const {
    using enum Message::Amount;
    if (message.amount == kGradients) return bytes_of_gradients(transfer);
    if (message.amount == kAttention) return bytes_of_attention(transfer, message.pass);
    const SequenceShape& positions = sequence(transfer.sequence);
    const int64_t total = positions.positions, row = transfer.width * size_ * positions.rows;
    switch (message.amount) {
      case kRegion:  // of a sequence that tensor-parallel ranks do not split
        return reduced(segments_.count(0, total) * row, plan_.sizes.tensor);
      case kPart:
        return segments_.most(total) * row * (segments_.ranks - 1);
      case kAllButNext:
        return (total - segments_.count(1, total)) * row;
      case kAllButOwn:
        return (total - segments_.count(0, total)) * row;
      default:
        return bytes_of_head(transfer, positions);
    }
  }

  int64_t bytes_of_head(const PlannedTransfer& transfer, const SequenceShape& positions) const {
    const int64_t ranks = plan_.sizes.tensor, total = positions.positions;
    const int64_t own = (heads_own_positions_ ? segments_.count(0, total) : total) * positions.rows;
    if (transfer.kind == Kind::kEnterHead) return reduced(own * transfer.width * size_, ranks);
    if (transfer.kind == Kind::kLogits) return own * transfer.width * size_ * (ranks - 1);
    return reduced(own * exact(), ranks) + reduced(2 * own * exact(), ranks);
  }

  int64_t bytes_of_gradients(const PlannedTransfer& transfer) const {
    int64_t bytes = 0;
    for (const auto& [elements, ranks] : transfer.gradients) bytes += reduced(elements * size_, ranks);
    return bytes;
  }

  int64_t bytes_of_attention(const PlannedTransfer& transfer, Message::Pass pass) const {
    const SequenceShape &of = sequence(transfer.sequence), &from = sequence(transfer.source);
    const AttentionShape attention = {.queries = transfer.width * of.rows,
                                      .keys = transfer.source_width * from.rows,
                                      .positions = of.positions,
                                      .source_positions = from.positions,
                                      .element_size = size_,
                                      .exact_size = exact(),
                                      .segments = segments_,
                                      .inner_ring = plan_.sizes.inner_ring};
    return sequence_mode_of(plan_.sizes).attention.bytes(attention, pass);
  }

  // Returns the bytes of an element where half precision is not enough.
  int64_t exact() const { return std::max<int64_t>(size_, 4); }

  const Plan& plan_;
  const TrafficShape& shape_;
  const Segments segments_;
  const int64_t size_;
  bool heads_own_positions_ = false;  // each rank of a sequence axis computes the logits of its positions
};

// Returns "all-reduce of 768 elements per position".
std::string text_of(const PlannedTransfer& transfer, const Message& message, const SequenceMode& mode) {
  std::string name = kCollectives[static_cast<size_t>(message.collective)];
  std::replace(name.begin(), name.end(), '_', '-');
  if (message.amount == Message::Amount::kGradients) {
    int64_t elements = 0;
    for (const PlannedTransfer::Gradient& gradient : transfer.gradients) elements += gradient.elements;
    return fmt::format("{} of {} elements", name, elements);
  }
  const int64_t width = message.amount == Message::Amount::kAttention
                            ? mode.attention.width(transfer.width, transfer.source_width, message.pass)
                            : transfer.width;
  return fmt::format("{} of {} elements per position", name, width);
}

}  // namespace

SentBytes sent_bytes(const Plan& plan, const TrafficShape& shape) {
  return Counter(plan, shape).run();
}

std::string explain_transfers(const Plan& plan) {
  struct Sent {
    std::string path;
    std::vector<std::string> forward, backward;
  };
  const SequenceMode& mode = sequence_mode_of(plan.sizes);
  std::vector<Sent> modules;
  for (const PlannedTransfer& transfer : plan.transfers) {
    auto found = std::find_if(modules.begin(), modules.end(),
                              [&](const Sent& module) { return module.path == transfer.path; });
    if (found == modules.end()) found = modules.insert(found, Sent{transfer.path, {}, {}});
    for (const Message& message : messages_of(transfer.kind, plan.sizes))
      (message.pass == Message::Pass::kForward ? found->forward : found->backward)
          .push_back(text_of(transfer, message, mode));
  }
  PerNode sent;
  for (const Sent& module : modules) {
    std::vector<std::string> passes;
    if (!module.forward.empty())
      passes.push_back(fmt::format("forward: {}", fmt::join(module.forward, ", ")));
    if (!module.backward.empty())
      passes.push_back(fmt::format("backward: {}", fmt::join(module.backward, ", ")));
    sent.add(module.path, fmt::format("{}", fmt::join(passes, "; ")));
  }
  std::string text;
  for (const auto& [passes, paths] : sent.groups())
    text +=
        fmt::format("sends       {}: {}  {}\n", paths.size(), fmt::join(compress_paths(paths), ", "), passes);
  return text;
}

namespace {

// Returns what attention sends in each mode over the sequence axis.
std::string document_attention() {
  std::vector<std::string> texts;
  for (const SequenceMode& mode : sequence_modes())
    if (mode.axis == SequenceMode::Axis::kSequence)
      texts.push_back(fmt::format("`{}`: {}", mode.name, mode.attention.documentation));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

std::array<std::string, 2> document(const Transfer& transfer) {
  const auto texts = [&]() -> std::array<std::string, 2> {
    switch (transfer.kind) {
      case Kind::kEnter:
      case Kind::kEnterLinear:
      case Kind::kEnterHead:
        return {"", "all-reduce of the gradient of the input"};
      case Kind::kEnterLinearShared:
        return {"", "one all-reduce of the gradient of the input for all such layers of the parent"};
      case Kind::kLeave:
      case Kind::kLeaveLinear:
        return {"all-reduce of the output", ""};
      case Kind::kSplit:
        return {"", "all-gather of the gradient of the input if tensor-parallel ranks split sequences"};
      case Kind::kEnd:
        return {"all-gather of the output if sequences are split", ""};
      case Kind::kAttend:
      case Kind::kAttendSource:
        return {document_attention(), "the same with the gradients"};
      case Kind::kLogits:
        return {"all-gather of the logits", ""};
      case Kind::kLoss:
        return {"all-reduce of three numbers per label", ""};
      case Kind::kGradients:
        return {"", "all-reduce of the gradients of its parameters"};
      case Kind::kSharedGradients:
        return {"", "all-reduce of the gradients of elements that several ranks hold"};
      case Kind::kOwnGradients:
        return {
            "",
            "all-reduce of the gradients of replicated parameters if tensor-parallel ranks split sequences"};
    }
    return {};
  }();
  if (transfer.key.empty()) return texts;
  std::array<std::string, 2> conditional;
  for (size_t pass = 0; pass < texts.size(); ++pass)
    if (!texts[pass].empty())
      conditional[pass] = fmt::format("{} if `{}` is {}", texts[pass], transfer.key, transfer.value);
  return conditional;
}

std::string operations_in_markdown() {
  std::string text =
      "| operation | layers | what it does | each rank keeps | forward | backward |\n"
      "|---|---|---|---|---|---|\n";
  for (const Operation& operation : known_operations()) {
    std::array<std::vector<std::string>, 2> passes;
    for (const Transfer& transfer : operation.transfers) {
      const std::array<std::string, 2> texts = document(transfer);
      for (size_t pass = 0; pass < texts.size(); ++pass)
        if (!texts[pass].empty()) passes[pass].push_back(texts[pass]);
    }
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", operation.id, fmt::join(operation.kinds, ", "),
                        operation.documentation, operation.keeps, fmt::join(passes[0], "; "),
                        fmt::join(passes[1], "; "));
  }
  text += "\n| attribute | of | default | meaning |\n|---|---|---|---|\n";
  for (const Operation& operation : known_operations())
    for (const AttributeRule& rule : operation.attributes)
      text += fmt::format("| `{}` | `{}` | `{}` | {}{} |\n", rule.standard.key, operation.id,
                          value_text(rule.standard), rule.documentation,
                          rule.choices.empty() ? "" : fmt::format(" ({})", fmt::join(rule.choices, ", ")));
  return text;
}

}  // namespace weft::plan
