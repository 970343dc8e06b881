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

// One call of a collective.
struct Message {
  enum class Pass { kForward, kBackward };
  enum class Amount {
    kRegion,      // the positions that the rank has inside tensor-parallel regions
    kHead,        // the positions for which the rank computes logits
    kPart,        // the rank's part of the positions, padded to the largest part
    kAllButNext,  // in a ring: the parts of all ranks but the next one
    kAllButOwn,   // in a ring: the parts of all other ranks
    kAttention,   // see bytes_of_attention()
    kGradients,   // the gradients of the module's parameters
  };
  Pass pass;
  Collective collective;
  Amount amount;
};

// Returns the collectives that the residual stream for these sizes calls for a transfer.
std::vector<Message> messages_of(Kind kind, const ParallelSizes& sizes) {
  using enum Message::Pass;
  using enum Message::Amount;
  using enum Collective;
  const bool split = splits_over_tensor_axis(sizes);
  const bool ring = split && sizes.sequence_mode == WEFT_SEQUENCE_RING;
  const Collective attending =
      sizes.sequence_mode == WEFT_SEQUENCE_ALL_TO_ALL ? Collective::kAllToAll : Collective::kSend;
  switch (kind) {
    case Kind::kEnterLinear:
    case Kind::kEnterLinearShared:
      if (ring)
        return {{kForward, kSend, kAllButNext},
                {kBackward, kSend, kAllButNext},
                {kBackward, kReduceScatter, kPart}};
      if (split)
        return {{kForward, kAllGather, kPart},
                {kBackward, kAllGather, kPart},
                {kBackward, kReduceScatter, kPart}};
      return {{kBackward, kAllReduce, kRegion}};
    case Kind::kEnter:
      if (split) return {{kForward, kAllGather, kPart}, {kBackward, kReduceScatter, kPart}};
      return {{kBackward, kAllReduce, kRegion}};
    case Kind::kLeaveLinear:
    case Kind::kLeave:
      if (ring && kind == Kind::kLeaveLinear)
        return {{kForward, kSend, kAllButOwn}, {kBackward, kSend, kAllButNext}};
      if (split) return {{kForward, kReduceScatter, kPart}, {kBackward, kAllGather, kPart}};
      return {{kForward, kAllReduce, kRegion}};
    case Kind::kSplit:
      return {{kBackward, kAllGather, kPart}};
    case Kind::kEnd:
      return {{kForward, kAllGather, kPart}};
    case Kind::kAttend:
    case Kind::kAttendSource:
      return {{kForward, attending, kAttention}, {kBackward, attending, kAttention}};
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
  if (splits_over_tensor_axis(sizes)) return {sizes.tensor, Segments::Order::kInOrder};
  const bool zigzag = sizes.sequence_mode == WEFT_SEQUENCE_RING_ATTENTION;
  return {sizes.sequence, zigzag ? Segments::Order::kZigzag : Segments::Order::kInOrder};
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
    const bool forward = pass == Message::Pass::kForward;
    const SequenceShape &of = sequence(transfer.sequence), &from = sequence(transfer.source);
    const int64_t queries = transfer.width * of.rows, keys = transfer.source_width * from.rows;
    if (plan_.sizes.sequence_mode == WEFT_SEQUENCE_RING_ATTENTION) {
      const int64_t travelling = keys * (from.positions - segments_.count(last_visited(), from.positions));
      // The gradients of all keys and values pass through each rank.
      return travelling * size_ + (forward ? 0 : keys * from.positions * exact());
    }
    // A rank sends the other heads of its own positions, or its heads of the other positions.
    const int64_t ranks = segments_.ranks;
    const auto heads = [&](int64_t total) { return segments_.count(0, total) * (ranks - 1); };
    const auto others = [&](int64_t total) { return total - segments_.count(0, total); };
    const int64_t result = queries / ranks * (forward ? others(of.positions) : heads(of.positions));
    const int64_t inputs =
        forward ? queries / ranks * heads(of.positions) + keys / ranks * heads(from.positions)
                : queries / ranks * others(of.positions) + keys / ranks * others(from.positions);
    return (result + inputs) * size_;
  }

  // Returns the rank whose keys and values the first rank does not pass on, because they visit it last
  // (parallel/route.hpp).
  int64_t last_visited() const {
    const int64_t inner = plan_.sizes.inner_ring, groups = segments_.ranks / inner;
    return 1 % groups * inner + groups % inner;
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
std::string text_of(const PlannedTransfer& transfer, const Message& message) {
  std::string name = kCollectives[static_cast<size_t>(message.collective)];
  std::replace(name.begin(), name.end(), '_', '-');
  if (message.amount == Message::Amount::kGradients) {
    int64_t elements = 0;
    for (const PlannedTransfer::Gradient& gradient : transfer.gradients) elements += gradient.elements;
    return fmt::format("{} of {} elements", name, elements);
  }
  int64_t width = transfer.width;
  if (message.amount == Message::Amount::kAttention) {
    // An all-to-all exchanges queries, keys, values and the result. A ring passes keys and values on, and in
    // backward also their gradients.
    const bool backward = message.pass == Message::Pass::kBackward;
    width = message.collective == Collective::kAllToAll ? transfer.source_width + 2 * width
                                                        : transfer.source_width * (backward ? 2 : 1);
  }
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
  std::vector<Sent> modules;
  for (const PlannedTransfer& transfer : plan.transfers) {
    auto found = std::find_if(modules.begin(), modules.end(),
                              [&](const Sent& module) { return module.path == transfer.path; });
    if (found == modules.end()) found = modules.insert(found, Sent{transfer.path, {}, {}});
    for (const Message& message : messages_of(transfer.kind, plan.sizes))
      (message.pass == Message::Pass::kForward ? found->forward : found->backward)
          .push_back(text_of(transfer, message));
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
        return {
            "`all_to_all`: all-to-all of queries, keys, values and the result; `ring_attn`: keys and values "
            "travel around the ring",
            "the same with the gradients"};
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
