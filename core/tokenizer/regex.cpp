#include "tokenizer/regex.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/text.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using Kind = RegexStep::Kind;
using Greed = RegexStep::Greed;

// Tries one beginning after the other, with a stack of the choices that are left. Without references to what
// groups matched, a choice that failed once fails always: after many tries, choices are remembered, so that
// the time of one beginning grows with (steps x length) and not exponentially. With references, nothing is
// remembered, and the limit of steps ends what takes too long.
template <bool kHasReferences>
class Matcher {
 public:
  Matcher(const RegexProgram& program, std::string_view text, Work work)
      : program_(program),
        text_(text),
        most_kept_((size_t{1} << 20) + 4 * text.size()),
        work_(work),
        slots_(program.num_slots, kNowhere) {}

  // Returns where the leftmost match that begins at or behind `from` begins and ends, if there is one.
  std::optional<std::pair<size_t, size_t>> find(size_t from) {
    for (size_t at = from; at <= text_.size(); ++at) {
      if (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) continue;
      if (const std::optional<size_t> end = run(0, at)) {
        if constexpr (kHasReferences) undo_marks();
        return std::pair(at, *end);
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<size_t> run(uint32_t begin, size_t at) {
    const size_t bottom = choices_.size();
    uint32_t step = begin;
    Tried tried(*this);
    while (true) {
      if (advance(step, at, tried)) {
        if constexpr (kHasReferences)
          drop_choices(bottom);
        else
          choices_.resize(bottom);
        return at;
      }
      do {
        if (choices_.size() == bottom) return std::nullopt;
      } while (!pop(step, at) || (!is_fork(step) && tried.again(step, at)));
    }
  }

  static constexpr size_t kNowhere = std::string_view::npos;
  static constexpr uint32_t kUndo = UINT32_MAX;
  struct Choice {
    uint32_t step;  // or kUndo: no choice, but slots_[set] was `at` before
    bool lazy;
    uint32_t set;    // of a lazy run
    size_t at, low;  // of a greedy run: it may also end between `low` and `at`
    uint32_t left;   // of a lazy run: how many code points it may still take; of the undo of a group 1
  };
  // What was tried and failed. Below a number of tries that real texts stay under, nothing is kept.
  class Tried {
   public:
    explicit Tried(Matcher& matcher) : matcher_(matcher) {}
    ~Tried() { matcher_.known_ -= known_.size(); }
    Tried(const Tried&) = delete;
    bool again(uint32_t step, size_t at) {
      if (kHasReferences || ++count_ < 4096) return false;
      if (!known_.insert(static_cast<uint64_t>(at) << 16 | step).second) return true;
      ++matcher_.known_;
      matcher_.check_kept();
      matcher_.work_.step(8);  // about what it takes to remember it
      return false;
    }

   private:
    Matcher& matcher_;
    size_t count_ = 0;
    std::unordered_set<uint64_t> known_;
  };

  void push(const Choice& choice) {
    choices_.push_back(choice);
    check_kept();
  }
  // Choices are what takes memory.
  void check_kept() {
    if (choices_.size() + known_ > most_kept_)
      work_.refuse(fmt::format("it keeps more than {} choices", most_kept_));
  }

  void mark(const RegexStep& now, size_t at) {
    const bool is_group = now.kind == Kind::kGroupBegin;
    keep(now.set, at, is_group);
    // A group that is open again has no text, also for a reference inside of it.
    if (is_group) keep(now.set + 1, kNowhere, false);
  }
  void keep(uint32_t slot, size_t at, bool is_group) {
    push({kUndo, false, slot, slots_[slot], 0, is_group ? 1u : 0});
    slots_[slot] = at;
  }
  // What failed has done so itself.
  void undo_marks() {
    for (; !choices_.empty(); choices_.pop_back()) slots_[choices_.back().set] = choices_.back().at;
  }
  // Drops the choices above `bottom`, but not what restores the slots when an older choice is taken.
  void drop_choices(size_t bottom) {
    const auto begin = choices_.begin() + static_cast<std::ptrdiff_t>(bottom);
    choices_.erase(
        std::remove_if(begin, choices_.end(), [](const Choice& choice) { return choice.step != kUndo; }),
        choices_.end());
  }

  // Takes the text of the first group that fits. Oniguruma compares as many bytes as the group has, also
  // where equal letters differ in length.
  bool take_reference(const RegexStep& now, size_t& at) const {
    for (const uint32_t slot : program_.references[now.set]) {
      const size_t begin = slots_[slot], end = slots_[slot + 1];
      if (begin == kNowhere || end == kNowhere) continue;
      const std::string_view wanted = text_.substr(begin, end - begin), found = text_.substr(at, end - begin);
      work_.step(1 + wanted.size());
      if (found.size() < wanted.size()) continue;
      const std::optional<size_t> size = now.ignore_case   ? size_up_to_case(wanted, found)
                                         : found == wanted ? std::optional(wanted.size())
                                                           : std::nullopt;
      if (!size) continue;
      at += *size;
      return true;
    }
    return false;
  }
  static std::optional<size_t> size_up_to_case(std::string_view wanted, std::string_view found) {
    size_t left = 0, right = 0;
    while (left < wanted.size()) {
      if (right >= found.size()) return std::nullopt;
      const Utf8Step step = utf8_step(found.substr(right));
      if (!step.valid) return std::nullopt;  // cut off
      if (fold_case(next_code_point(wanted, left)) != fold_case(next_code_point(found, right)))
        return std::nullopt;
    }
    return right;
  }

  bool advance_with_slots(const RegexStep& now, uint32_t& step, size_t& at) {
    if (now.kind == Kind::kLoopEnd) {
      step = stands_still(now.set, at) ? now.other : now.next;
      return true;
    }
    ++step;
    if (now.kind == Kind::kReference) return take_reference(now, at);
    mark(now, at);
    return true;
  }

  // Returns whether a round of a loop that began at slots_[slot] took nothing and gave no group another text.
  bool stands_still(uint32_t slot, size_t at) const {
    if (slots_[slot] != at) return false;
    size_t begin = choices_.size() - 1;
    while (choices_[begin].step != kUndo || choices_[begin].set != slot) --begin;
    work_.step(choices_.size() - begin);
    std::vector<uint32_t> seen;
    for (size_t i = begin + 1; i + 1 < choices_.size(); ++i) {
      const uint32_t group = choices_[i].set;
      if (choices_[i].step != kUndo || choices_[i].left == 0) continue;
      if (std::find(seen.begin(), seen.end(), group) != seen.end()) continue;
      seen.push_back(group);
      work_.step(seen.size());
      // The end is restored by the next one. Only what the group was before the round counts.
      const size_t old_begin = choices_[i].at, old_end = choices_[i + 1].at;
      if (old_end == kNowhere) return false;
      const bool is_same = old_begin == slots_[group] && old_end == slots_[group + 1];
      const bool are_empty = old_begin == old_end && slots_[group] == slots_[group + 1];
      if (!is_same && !are_empty) return false;
    }
    return true;
  }

  // A fork asks by itself whether it was tried.
  bool is_fork(uint32_t step) const { return program_.steps[step].kind == Kind::kFork; }

  bool take(const CodePointSet& set, size_t& at) const {
    if (at == text_.size()) return false;
    size_t end = at;
    if (!set.contains(next_code_point(text_, end))) return false;
    at = end;
    return true;
  }

  // Goes on until the program is done (true) or no step fits (false).
  bool advance(uint32_t& step, size_t& at, Tried& tried) {
    while (true) {
      const RegexStep& now = program_.steps[step];
      work_.step();
      switch (now.kind) {
        case Kind::kDone:
          return true;
        case Kind::kSet:
          if (!take(program_.sets[now.set], at)) return false;
          ++step;
          break;
        case Kind::kRun:
          if (!take_run(now, step + 1, at)) return false;
          ++step;
          break;
        case Kind::kJump:
          step = now.next;
          break;
        case Kind::kFork:
          if (tried.again(step, at)) return false;
          push({now.other, false, 0, at, at, 0});
          step = now.next;
          break;
        case Kind::kLook:
          if (run(step + 1, at).has_value() == now.negated) return false;
          step = now.other;
          break;
        case Kind::kAtomic: {
          const std::optional<size_t> end = run(step + 1, at);
          if (!end) return false;
          at = *end;
          step = now.other;
          break;
        }
        case Kind::kGroupBegin:
        case Kind::kMark:
        case Kind::kReference:
        case Kind::kLoopEnd:
          if constexpr (kHasReferences)
            if (!advance_with_slots(now, step, at)) return false;
          break;
        default:
          if (holds(now, at) == now.negated) return false;
          ++step;
      }
    }
  }

  bool take_run(const RegexStep& now, uint32_t next, size_t& at) {
    const CodePointSet& set = program_.sets[now.set];
    uint32_t count = 0;
    while (count < now.least)
      if (take(set, at))
        ++count;
      else
        return false;
    if (now.greed == Greed::kLazy) {
      if (count < now.most) push({next, true, now.set, at, at, now.most - count});
      return true;
    }
    const size_t low = at;
    while (count < now.most && take(set, at)) ++count;
    work_.step(at - low);
    if (now.greed == Greed::kGreedy && at > low) {
      size_t shorter = at;
      previous_code_point(text_, shorter);
      push({next, false, 0, shorter, low, 0});
    }
    return true;
  }

  // Takes the next choice from the stack. Returns false if it is a lazy run that cannot take more.
  bool pop(uint32_t& step, size_t& at) {
    work_.step();
    Choice& choice = choices_.back();
    if (kHasReferences && choice.step == kUndo) {
      slots_[choice.set] = choice.at;
      choices_.pop_back();
      return false;
    }
    step = choice.step;
    at = choice.at;
    const bool can = !choice.lazy || take(program_.sets[choice.set], at);
    const bool has_more = choice.lazy ? can && --choice.left > 0 : choice.at > choice.low;
    if (!has_more)
      choices_.pop_back();
    else if (choice.lazy)
      choice.at = at;
    else
      previous_code_point(text_, choice.at);
    return can;
  }

  bool holds(const RegexStep& now, size_t at) const {
    const bool at_begin = at == 0, at_end = at == text_.size();
    switch (now.kind) {
      case Kind::kLineBegin:
        return at_begin || text_[at - 1] == '\n';
      case Kind::kLineEnd:
        return at_end || text_[at] == '\n';
      case Kind::kTextBegin:
        return at_begin;
      case Kind::kTextEnd:
        return at_end;
      default:
        break;
    }
    size_t before = at, behind = at;
    const bool left = !at_begin && is_word(previous_code_point(text_, before));
    const bool right = !at_end && is_word(next_code_point(text_, behind));
    return left != right;
  }

  const RegexProgram& program_;
  const std::string_view text_;
  const size_t most_kept_;
  Work work_;
  std::vector<Choice> choices_;
  std::vector<size_t> slots_;  // places that the program keeps
  size_t known_ = 0;           // of all that was tried
};

template <typename AnyMatcher>
void take_matches(AnyMatcher matcher, std::string_view text, const Regex::Take& take) {
  size_t at = 0, last_end = std::string_view::npos;
  while (at <= text.size()) {
    const auto match = matcher.find(at);
    if (!match) return;
    if (match->first == match->second) {
      if (match->first != last_end) take(match->first, match->second);
      at = match->second + 1;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    } else {
      take(match->first, match->second);
      at = match->second;
    }
    last_end = match->second;
  }
}

}  // namespace

Regex::Regex(std::string_view expression, const std::string& rule)
    : name_(fmt::format("{}: the regular expression \"{}\"", rule, printable(expression, 80))),
      program_(compile_regex(expression, rule)) {}

void Regex::each_match(std::string_view text, Limits& limits, const Take& take) const {
  if (program_.references.empty())
    take_matches(Matcher<false>(program_, text, {limits, name_}), text, take);
  else
    take_matches(Matcher<true>(program_, text, {limits, name_}), text, take);
}

}  // namespace weft::tokenizer
