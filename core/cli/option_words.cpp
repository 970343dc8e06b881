#include "option_words.hpp"

#include "base/text.hpp"
#include "numbers.hpp"
#include "verbs.hpp"

namespace weft::cli {

using nlohmann::json;
using Type = JobOption::Type;

namespace {

bool read_switch(const std::string& text, const std::string& who) {
  for (const char* yes : {"true", "yes", "on", "1"})
    if (text == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (text == no) return false;
  throw UsageError(fmt::format("{} is \"{}\", must be true or false", who, printable(text)));
}

// A range that ends on one side alone is the engine's to check.
IntegerRange range_of(const JobOption& option) {
  if (!option.spec.min || !option.spec.max) return {};
  return {static_cast<int64_t>(*option.spec.min), static_cast<int64_t>(*option.spec.max)};
}

}  // namespace

void require_utf8(const std::string& who, const std::string& text) try {
  json(text).dump();
} catch (const json::type_error&) {
  const auto replace = json::error_handler_t::replace;
  const std::string shown = printable(json(text).dump(-1, ' ', true, replace));
  throw UsageError(fmt::format("{} is {}, which is not UTF-8", who, shown));
}

json read_option(const JobOption& option, const std::string& text, const std::string& who,
                 bool may_be_empty) {
  switch (option.type) {
    case Type::kBool:
      return read_switch(text, who);
    case Type::kInt:
      return read_integer(who, text, range_of(option));
    case Type::kFloat:
      return read_real(who, text);
    case Type::kInts:
      return read_integers(who, text, may_be_empty);
    case Type::kFloats:
      return read_reals(who, text);
    default:
      require_utf8(who, text);
      return text;
  }
}

}  // namespace weft::cli
