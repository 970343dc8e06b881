// What the functions of templates share: their arguments, and tables of them by name.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "jinja/value.hpp"

namespace weft::jinja {

// Throws INVALID_ARGUMENT for a value that `what` does not take.
[[noreturn]] inline void refuse_type(const char* what, const Value& value) {
  if (value.is_undefined())
    fail(WEFT_INVALID_ARGUMENT, "{} of \"{}\", which is undefined", what, value.undefined_name());
  fail(WEFT_INVALID_ARGUMENT, "{} of a value of the type {}", what, value.type());
}

// Reads the arguments of one function.
class Reader {
 public:
  Reader(const char* what, const Arguments& arguments, size_t most) : what_(what), arguments_(arguments) {
    if (arguments.positional.size() > most)
      fail(WEFT_INVALID_ARGUMENT, "{} takes {} arguments, got {}", what, most, arguments.positional.size());
  }
  const Value* find(size_t at, std::string_view name) const { return arguments_.find(at, name); }
  const Value& at(size_t place, std::string_view name) const {
    const Value* const found = find(place, name);
    if (found == nullptr) fail(WEFT_INVALID_ARGUMENT, "{} needs the argument {}", what_, name);
    return *found;
  }
  int64_t integer(size_t place, std::string_view name, std::optional<int64_t> otherwise = {}) const {
    const Value* const found = find(place, name);
    if (otherwise && (found == nullptr || found->is_none())) return *otherwise;
    const Value& value = at(place, name);
    if (!value.is_number() || value.is_float()) refuse_type(what_, value);
    return value.integer();
  }
  Text text(size_t place, std::string_view name) const {
    const Value& value = at(place, name);
    if (value.text() == nullptr) refuse_type(what_, value);
    return *value.text();
  }
  bool flag(size_t place, std::string_view name, bool otherwise = false) const {
    const Value* const found = find(place, name);
    return found == nullptr ? otherwise : found->is_true();
  }

 private:
  const char* const what_;
  const Arguments& arguments_;
};

// Return the entry of a table that has that name, or null, and the names of all.
template <class Table>
auto find_in(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& entry) { return entry.name == name; });
  return found == std::end(table) ? nullptr : &*found;
}
template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

}  // namespace weft::jinja
