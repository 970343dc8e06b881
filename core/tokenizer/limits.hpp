// What the rules of a tokenizer may do with a text: none takes for ever, and none fills the memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace weft::tokenizer {

// Counts what all rules of a tokenizer do with one text.
class Limits {
 public:
  // `bytes` are those of the text.
  explicit Limits(size_t bytes)
      : bytes_(bytes), most_steps_(4'000'000 + 1000 * bytes), room_((size_t{1} << 20) + 64 * bytes) {}

  // Throw RESOURCE_EXHAUSTED with the name of the rule. A step takes about as long as to look at one
  // character.
  void step(size_t count, const std::string& rule) {
    steps_ += count;
    if (steps_ > most_steps_) refuse_steps(rule);
  }
  // Checks that the text may become so long.
  void require_room(size_t bytes, const std::string& rule) const {
    if (bytes > room_) refuse_growth(rule);
  }
  // Takes the room of a part of the text that is ready.
  void use_room(size_t bytes) { room_ -= std::min(room_, bytes); }
  [[noreturn]] void refuse(const std::string& rule, const std::string& what) const;

 private:
  [[noreturn]] void refuse_steps(const std::string& rule) const;
  [[noreturn]] void refuse_growth(const std::string& rule) const;

  const size_t bytes_, most_steps_;
  size_t steps_ = 0, room_;
};

// The work of one rule, which messages name, on a text.
class Work {
 public:
  Work(Limits& limits, const std::string& rule) : limits_(limits), rule_(rule) {}
  void step(size_t count = 1) const { limits_.step(count, rule_); }
  void require_room(size_t bytes) const { limits_.require_room(bytes, rule_); }
  // Throws RESOURCE_EXHAUSTED: the rule needs too much, as `what` says.
  [[noreturn]] void refuse(const std::string& what) const { limits_.refuse(rule_, what); }

 private:
  Limits& limits_;
  const std::string& rule_;
};

}  // namespace weft::tokenizer
