#include "tokenizer/regex.hpp"

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

// Tries one beginning after the other, with a stack of the choices that are left. A choice that failed once
// fails always, for there are no references to what groups matched: after many tries, choices are remembered,
// so that the time of one beginning grows with (steps x length) and not exponentially.
class Matcher {
 public:
  Matcher(const RegexProgram& program, std::string_view text, Work work)
      : program_(program), text_(text), most_kept_((size_t{1} << 20) + 4 * text.size()), work_(work) {}

  // Returns where the leftmost match that begins at or behind `from` begins and ends, if there is one.
  std::optional<std::pair<size_t, size_t>> find(size_t from) {
    for (size_t at = from; at <= text_.size(); ++at) {
      if (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80) continue;
      if (const std::optional<size_t> end = run(0, at)) return std::pair(at, *end);
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
        choices_.resize(bottom);
        return at;
      }
      do {
        if (choices_.size() == bottom) return std::nullopt;
      } while (!pop(step, at) || (!is_fork(step) && tried.again(step, at)));
    }
  }

  struct Choice {
    uint32_t step;
    bool lazy;
    uint32_t set;    // of a lazy run
    size_t at, low;  // of a greedy run: it may also end between `low` and `at`
    uint32_t left;   // of a lazy run: how many code points it may still take
  };
  // What was tried and failed. Below a number of tries that real texts stay under, nothing is kept.
  class Tried {
   public:
    explicit Tried(Matcher& matcher) : matcher_(matcher) {}
    ~Tried() { matcher_.known_ -= known_.size(); }
    Tried(const Tried&) = delete;
    bool again(uint32_t step, size_t at) {
      if (++count_ < 4096) return false;
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
  size_t known_ = 0;  // of all that was tried
};

}  // namespace

Regex::Regex(std::string_view expression, const std::string& rule)
    : name_(fmt::format("{}: the regular expression \"{}\"", rule, printable(expression, 80))),
      program_(compile_regex(expression, rule)) {}

void Regex::each_match(std::string_view text, Limits& limits, const Take& take) const {
  Matcher matcher(program_, text, {limits, name_});
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

}  // namespace weft::tokenizer
