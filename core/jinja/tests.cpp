#include <cmath>

#include "jinja/functions.hpp"
#include "jinja/reader.hpp"

namespace weft::jinja {

namespace {

// Returns value % by, as Python counts it.
double remainder(const char* what, const Value& value, const Value& by) {
  if (!value.is_number()) refuse_type(what, value);
  if (!by.is_number()) refuse_type(what, by);
  if (by.real() == 0) fail(WEFT_INVALID_ARGUMENT, "{} by zero", what);
  const double rest = std::fmod(value.real(), by.real());
  return rest != 0 && (rest < 0) != (by.real() < 0) ? rest + by.real() : rest;
}
const Value& other(const Arguments& arguments) {
  return Reader("the test", arguments, 1).at(0, "other");
}
bool is_same(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.list() != nullptr || (a.dict() != nullptr && a.attributes() == nullptr))
    return a.list() == b.list() && a.dict() == b.dict();
  return equal(a, b);
}

bool is_iterable(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.is_undefined() ||
         (value.dict() != nullptr && value.attributes() == nullptr);
}

struct NamedTest {
  std::string_view name;
  Test test;
};
constexpr Test kEqual = [](const Value&v, const Arguments&a) { return equal(v, other(a)); },
               kNotEqual = [](const Value&v, const Arguments&a) { return !equal(v, other(a)); },
               kLess = [](const Value&v, const Arguments&a) { return less(v, other(a)); },
               kGreater = [](const Value&v, const Arguments&a) { return less(other(a), v); },
               kAtMost = [](const Value&v, const Arguments&a) { return !less(other(a), v); },
               kAtLeast = [](const Value&v, const Arguments&a) { return !less(v, other(a)); };
const NamedTest kTests[] = {
    {"!=", kNotEqual},
    {"<", kLess},
    {"<=", kAtMost},
    {"==", kEqual},
    {">", kGreater},
    {">=", kAtLeast},
    {"boolean", [](const Value& v, const Arguments&) { return v.is_bool(); }},
    {"callable", [](const Value& v, const Arguments&) { return v.function() != nullptr; }},
    {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"divisibleby",
     [](const Value& v, const Arguments& a) { return remainder("divisibleby", v, other(a)) == 0; }},
    {"eq", kEqual},
    {"equalto", kEqual},
    {"even", [](const Value& v, const Arguments&) { return remainder("even", v, Value(int64_t{2})) == 0; }},
    {"false", [](const Value& v, const Arguments&) { return v.is_bool() && !v.is_true(); }},
    {"float", [](const Value& v, const Arguments&) { return v.is_float(); }},
    {"ge", kAtLeast},
    {"greaterthan", kGreater},
    {"gt", kGreater},
    {"in", [](const Value& v, const Arguments& a) { return contains(other(a), v); }},
    {"integer", [](const Value& v, const Arguments&) { return v.is_integer(); }},
    {"iterable", [](const Value& v, const Arguments&) { return is_iterable(v); }},
    {"le", kAtMost},
    {"lessthan", kLess},
    {"lt", kLess},
    {"mapping",
     [](const Value& v, const Arguments&) { return v.dict() != nullptr && v.attributes() == nullptr; }},
    {"ne", kNotEqual},
    {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
    {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
    {"odd", [](const Value& v, const Arguments&) { return remainder("odd", v, Value(int64_t{2})) == 1; }},
    {"sameas", [](const Value& v, const Arguments& a) { return is_same(v, other(a)); }},
    {"sequence",
     [](const Value& v, const Arguments&) {
       return is_iterable(v) && (v.list() == nullptr || v.list()->kind != ListKind::kView);
     }},
    {"string", [](const Value& v, const Arguments&) { return v.text() != nullptr; }},
    {"true", [](const Value& v, const Arguments&) { return v.is_bool() && v.is_true(); }},
    {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
};
}  // namespace

Test find_test(std::string_view name) {
  const auto* const found = find_in(kTests, name);
  return found == nullptr ? nullptr : found->test;
}
std::vector<std::string> test_names() {
  return names_in(kTests);
}
}  // namespace weft::jinja
