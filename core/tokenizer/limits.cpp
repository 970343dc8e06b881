#include "tokenizer/limits.hpp"

#include "base/text.hpp"

namespace weft::tokenizer {

void Limits::refuse(const std::string& rule, const std::string& what) const {
  fail(WEFT_RESOURCE_EXHAUSTED, "{}: {} for a text of {} bytes, which is more than Weft takes", rule, what,
       bytes_);
}

void Limits::refuse_steps(const std::string& rule) const {
  refuse(rule, fmt::format("it takes more than {} steps", most_steps_));
}

void Limits::refuse_growth(const std::string& rule) const {
  refuse(rule, fmt::format("it writes more than {} bytes", room_));
}

}  // namespace weft::tokenizer
