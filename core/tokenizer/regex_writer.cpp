#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "tokenizer/regex_tree.hpp"

namespace weft::tokenizer {

namespace {

using Node = RegexNode;
using Kind = RegexStep::Kind;
using Greed = RegexStep::Greed;
constexpr size_t kMostSteps = 8192;

class Writer {
 public:
  explicit Writer(const std::string& source) : source_(source) {}

  RegexProgram write(RegexTree tree) {
    program_.sets = std::move(tree.sets);
    referenced_ = std::move(tree.referenced);
    program_.num_slots = 2 * static_cast<uint32_t>(referenced_.size());
    add(tree.root);
    step(Kind::kDone);
    return std::move(program_);
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(program_.steps.size()); }
  uint32_t step(Kind kind) {
    if (here() >= kMostSteps)
      fail(WEFT_DATA_LOSS, "{}: a regular expression is longer than {} steps", source_, kMostSteps);
    program_.steps.push_back({.kind = kind});
    return here() - 1;
  }
  RegexStep& at(uint32_t place) { return program_.steps[place]; }

  void add(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kSet: {
        const uint32_t place = step(Kind::kSet);
        at(place).set = node.set;
        break;
      }
      case Node::Kind::kPlace: {
        const uint32_t place = step(node.place);
        at(place).negated = node.negated;
        break;
      }
      case Node::Kind::kText:  // resolve_case() leaves none
        break;
      case Node::Kind::kGroup:
        add_group(node);
        break;
      case Node::Kind::kReference:
        add_reference(node);
        break;
      case Node::Kind::kSequence:
        for (const Node& child : node.children) add(child);
        break;
      case Node::Kind::kAlternatives:
        add_alternatives(node);
        break;
      case Node::Kind::kRepeat:
        add_repeat(node);
        break;
      case Node::Kind::kLook:
      case Node::Kind::kAtomic:
        add_nested(node.kind == Node::Kind::kLook ? Kind::kLook : Kind::kAtomic, node.negated,
                   [&] { add(node.children.front()); });
        break;
    }
  }

  // Returns the slot in which a group begins, or nothing if no reference means it.
  std::optional<uint32_t> slot_of(uint32_t group) const {
    const auto found = std::lower_bound(referenced_.begin(), referenced_.end(), group);
    if (found == referenced_.end() || *found != group) return std::nullopt;
    return 2 * static_cast<uint32_t>(found - referenced_.begin());
  }
  void mark(Kind kind, uint32_t slot) {
    const uint32_t place = step(kind);
    at(place).set = slot;
  }
  void add_group(const Node& node) {
    const std::optional<uint32_t> slot = node.groups.empty() ? std::nullopt : slot_of(node.groups.front());
    if (slot) mark(Kind::kGroupBegin, *slot);
    add(node.children.front());
    if (slot) mark(Kind::kMark, *slot + 1);
  }
  void add_reference(const Node& node) {
    std::vector<uint32_t> slots;
    for (const uint32_t group : node.groups) slots.push_back(*slot_of(group));
    const uint32_t place = step(Kind::kReference);
    at(place).set = static_cast<uint32_t>(program_.references.size());
    at(place).ignore_case = node.ignore_case;
    program_.references.push_back(std::move(slots));
  }

  static bool may_be_empty(const Node& node) {
    const auto& children = node.children;
    switch (node.kind) {
      case Node::Kind::kSet:
      case Node::Kind::kText:
        return false;
      case Node::Kind::kAlternatives:
        return std::any_of(children.begin(), children.end(), may_be_empty);
      case Node::Kind::kRepeat:
        return node.least == 0 || may_be_empty(children.front());
      case Node::Kind::kLook:
      case Node::Kind::kPlace:
      case Node::Kind::kReference:
        return true;
      default:
        return std::all_of(children.begin(), children.end(), may_be_empty);
    }
  }

  template <typename Body>
  void add_nested(Kind kind, bool negated, Body body) {
    const uint32_t begin = step(kind);
    body();
    step(Kind::kDone);
    at(begin).negated = negated;
    at(begin).other = here();
  }

  void add_alternatives(const Node& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i + 1 < node.children.size(); ++i) {
      const uint32_t fork = step(Kind::kFork);
      at(fork).next = here();
      add(node.children[i]);
      jumps.push_back(step(Kind::kJump));
      at(fork).other = here();
    }
    add(node.children.back());
    for (const uint32_t jump : jumps) at(jump).next = here();
  }

  void add_repeat(const Node& node) {
    const Node& item = node.children.front();
    if (item.kind == Node::Kind::kSet) {
      const uint32_t run = step(Kind::kRun);
      at(run).set = item.set;
      at(run).least = node.least;
      at(run).most = node.most;
      at(run).greed = node.greed;
    } else if (node.greed == Greed::kPossessive) {
      add_nested(Kind::kAtomic, false, [&] { add_copies(node, item, false); });
    } else {
      add_copies(node, item, node.greed == Greed::kLazy);
    }
  }

  void add_copies(const Node& node, const Node& item, bool lazy) {
    for (uint32_t i = 0; i < node.least; ++i) {
      const uint32_t before = here();
      add(item);
      if (here() == before) return;  // however often nothing is repeated, it is nothing
    }
    if (node.most == kUnlimited) {
      const uint32_t fork = step(Kind::kFork);
      add_round(item, fork);
      finish(fork, lazy);
      return;
    }
    std::vector<uint32_t> forks;
    for (uint32_t i = node.least; i < node.most; ++i) {
      forks.push_back(step(Kind::kFork));
      add(item);
    }
    for (const uint32_t fork : forks) finish(fork, lazy);
  }
  // With references, what failed once may match later, so that the matcher does not see that a loop stands
  // still.
  void add_round(const Node& item, uint32_t fork) {
    const bool checked = !referenced_.empty() && may_be_empty(item);
    const uint32_t slot = program_.num_slots;
    if (checked) {
      ++program_.num_slots;
      mark(Kind::kMark, slot);
    }
    add(item);
    const uint32_t end = step(checked ? Kind::kLoopEnd : Kind::kJump);
    at(end).set = slot;
    at(end).next = fork;
    at(end).other = here();
  }
  void finish(uint32_t fork, bool lazy) {
    at(fork).next = lazy ? here() : fork + 1;
    at(fork).other = lazy ? fork + 1 : here();
  }

  const std::string& source_;
  RegexProgram program_;
  std::vector<uint32_t> referenced_;
};

}  // namespace

RegexProgram write_regex(RegexTree tree, const std::string& source) {
  return Writer(source).write(std::move(tree));
}

RegexProgram compile_regex(std::string_view expression, const std::string& source) {
  RegexTree tree = parse_regex(expression, source);
  resolve_case(tree);
  return write_regex(std::move(tree), source);
}

}  // namespace weft::tokenizer
