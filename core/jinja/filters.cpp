#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/characters.hpp"
#include "jinja/functions.hpp"
#include "jinja/reader.hpp"
#include "jinja/strings.hpp"

namespace weft::jinja {

namespace {

const Text& text_for(const char* what, const Value& value) {
  if (value.text() == nullptr) refuse_type(what, value);
  return *value.text();
}

// Returns the value at a path of attributes, "function.name", or at an index.
Value at_path(const Value& value, const Value& path) {
  if (path.text() == nullptr) return item_of(value, path);
  Value found = value;
  for (const std::string& name : weft::split(path.text()->bytes(), '.')) {
    const bool is_index = name.find_first_not_of("0123456789") == std::string::npos;
    found = is_index ? item_of(found, Value(int64_t{std::stoll(name.substr(0, 9))}))
                     : item_of(found, Value(name));
  }
  return found;
}

Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() +
                             static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size())),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map(const Value& input, const Arguments& arguments) {
  List made;
  if (const Value* const path = arguments.find(SIZE_MAX, "attribute")) {
    const Value* const otherwise = arguments.find(SIZE_MAX, "default");
    for (const Value& item : elements(input)) {
      Value found = at_path(item, *path);
      made.push_back(found.is_undefined() && otherwise != nullptr ? *otherwise : found);
    }
    return made;
  }
  const std::string name = Reader("map", arguments, SIZE_MAX).text(0, "filter").bytes();
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail(WEFT_UNIMPLEMENTED, "Weft does not know the filter {}", printable(name, 40));
  const Arguments others = without_first(arguments, 1);
  const Limits::Level level;  // map('map', 'map', ...) goes into what lists contain
  for (const Value& item : elements(input)) made.push_back(filter(item, others));
  return made;
}

// select, reject, selectattr and rejectattr: keeps the items, or those attributes, that pass the test.
Value chosen(const Value& input, const Arguments& arguments, bool passing, bool by_attribute) {
  const size_t first = by_attribute ? 1 : 0;
  const Reader read(by_attribute ? "selectattr" : "select", arguments, SIZE_MAX);
  const bool tests = arguments.positional.size() > first;
  const std::string name = tests ? read.text(first, "test").bytes() : "";
  const Test test = tests ? find_test(name) : nullptr;
  if (tests && test == nullptr)
    fail(WEFT_UNIMPLEMENTED, "Weft does not know the test {}", printable(name, 40));
  const Arguments others = without_first(arguments, tests ? first + 1 : 0);
  List made;
  for (const Value& item : elements(input)) {
    const Value value = by_attribute ? at_path(item, read.at(0, "attribute")) : item;
    if ((tests ? test(value, others) : value.is_true()) == passing) made.push_back(item);
  }
  return made;
}

// Returns what sort, unique, min and max compare: without case, unless they are told otherwise.
Value comparable(const Value& item, const Value* attribute, bool with_case) {
  const Value value = attribute == nullptr || attribute->is_none() ? item : at_path(item, *attribute);
  return with_case || value.text() == nullptr ? value : Value(lower_case(*value.text()));
}

Value sorted(const Value& input, const Arguments& arguments) {
  const Reader read("sort", arguments, 3);
  const bool reverse = read.flag(0, "reverse"), with_case = read.flag(1, "case_sensitive");
  const Value* const attribute = read.find(2, "attribute");
  List items = elements(input);
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    const Value first = comparable(a, attribute, with_case), second = comparable(b, attribute, with_case);
    return reverse ? less(second, first) : less(first, second);
  });
  return items;
}

Value sorted_dict(const Value& input, const Arguments& arguments) {
  const Reader read("dictsort", arguments, 3);
  const bool with_case = read.flag(0, "case_sensitive"), reverse = read.flag(2, "reverse");
  const bool by_value = read.find(1, "by") != nullptr && read.text(1, "by").bytes() == "value";
  if (input.dict() == nullptr) refuse_type("dictsort", input);
  List items = elements(items_of(*input.dict()));
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    const size_t place = by_value ? 1 : 0;
    const Value first = comparable((*a.list())[place], nullptr, with_case),
                second = comparable((*b.list())[place], nullptr, with_case);
    return reverse ? less(second, first) : less(first, second);
  });
  return items;
}

Value unique(const Value& input, const Arguments& arguments) {
  const Reader read("unique", arguments, 2);
  List seen, made;
  for (const Value& item : elements(input)) {
    const Value value = comparable(item, read.find(1, "attribute"), read.flag(0, "case_sensitive"));
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& other) { return equal(value, other); }))
      continue;
    seen.push_back(value);
    made.push_back(item);
  }
  return made;
}

Value extreme(const Value& input, const Arguments& arguments, bool largest) {
  const Reader read(largest ? "max" : "min", arguments, 2);
  Value best;
  bool first = true;
  for (const Value& item : elements(input)) {
    const auto key = [&](const Value& of) {
      return comparable(of, read.find(1, "attribute"), read.flag(0, "case_sensitive"));
    };
    if (first || (largest ? less(key(best), key(item)) : less(key(item), key(best)))) best = item;
    first = false;
  }
  return best;
}

Value sum(const Value& input, const Arguments& arguments) {
  const Reader read("sum", arguments, 2);
  const Value* const attribute = read.find(0, "attribute");
  const Value* const start = read.find(1, "start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& item : elements(input)) {
    const Value value = attribute == nullptr || attribute->is_none() ? item : at_path(item, *attribute);
    if (!value.is_number() || !total.is_number()) refuse_type("sum", value);
    int64_t whole = 0;
    if (value.is_float() || total.is_float())
      total = total.real() + value.real();
    else if (__builtin_add_overflow(total.integer(), value.integer(), &whole))
      fail(WEFT_INVALID_ARGUMENT, "the sum is too large");
    else
      total = whole;
  }
  return total;
}

Value indented(const Value& input, const Arguments& arguments) {
  const Reader read("indent", arguments, 3);
  const Value* const width = read.find(0, "width");
  const Text space =
      width != nullptr && width->text() != nullptr
          ? *width->text()
          : Text(std::string(static_cast<size_t>(std::clamp<int64_t>(read.integer(0, "width", 4), 0, 1000)),
                             ' '));
  const bool first = read.flag(1, "first"), blank = read.flag(2, "blank");
  Text made;
  size_t number = 0;
  Text source = text_for("indent", input);
  source.append("\n");  // so that the last line counts, however the text ends
  for (const Value& line : lines_of(source, false)) {
    if (number > 0) made.append("\n");
    if (number == 0 ? first : blank || !line.text()->empty()) made.append(space);
    made.append(*line.text());
    ++number;
  }
  return made;
}

Value json(const Value& input, const Arguments& arguments) {
  const Value* const indent = arguments.find(SIZE_MAX, "indent");
  const Value* const sort = arguments.find(SIZE_MAX, "sort_keys");
  for (const auto& [name, value] : arguments.named) {
    const bool ascii = name == "ensure_ascii" && !value.is_true(),
               plain = name == "separators" && value.is_none();
    if (name != "indent" && name != "sort_keys" && !ascii && !plain)
      fail(WEFT_UNIMPLEMENTED, "Weft does not know the argument {} of tojson", name);
  }
  if (!arguments.positional.empty())
    fail(WEFT_UNIMPLEMENTED, "Weft knows the arguments of tojson by name alone");
  std::optional<int64_t> spaces;
  if (indent != nullptr && !indent->is_none()) {
    if (!indent->is_integer() || indent->integer() < 0 || indent->integer() > 1000)
      refuse_type("the indent of tojson", *indent);
    spaces = indent->integer();
  }
  return to_json(input, spaces, sort != nullptr && sort->is_true());
}

// Returns the number that the whole of a text is, without the space around it.
template <class Number>
std::optional<Number> number_in(const Text& text) {
  std::string_view digits = trim(text.bytes());
  if (digits.starts_with('+')) digits.remove_prefix(1);
  Number number = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

Value to_integer(const Value& input, const Arguments& arguments) {
  const Reader read("int", arguments, 2);
  const Value* const given = read.find(0, "default");
  const Value otherwise = given != nullptr ? *given : Value(int64_t{0});
  constexpr double kMost = 9e18;
  if (input.is_float() && !(std::abs(input.real()) < kMost))
    fail(WEFT_INVALID_ARGUMENT, "int of {} is too large", to_text(input).bytes());
  if (input.is_number()) return input.integer();
  if (input.text() == nullptr) return otherwise;
  if (const auto whole = number_in<int64_t>(*input.text())) return *whole;
  const auto real = number_in<double>(*input.text());
  return real && std::abs(*real) < kMost ? Value(static_cast<int64_t>(*real)) : otherwise;
}

Value to_real(const Value& input, const Arguments& arguments) {
  const Value* const given = Reader("float", arguments, 1).find(0, "default");
  if (input.is_number()) return input.real();
  if (input.text() != nullptr)
    if (const auto real = number_in<double>(*input.text())) return *real;
  return given != nullptr ? *given : Value(0.0);
}

Value rounded(const Value& input, const Arguments& arguments) {
  const Reader read("round", arguments, 2);
  if (!input.is_number()) refuse_type("round", input);
  const int64_t digits = read.integer(0, "precision", 0);
  const std::string method = read.find(1, "method") != nullptr ? read.text(1, "method").bytes() : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits)), scaled = input.real() * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  if (method != "common") fail(WEFT_INVALID_ARGUMENT, "round: the method is \"{}\"", printable(method, 40));
  return std::nearbyint(scaled) / scale;
}

Value first_of(const Value& input) {
  if (const Text* const text = input.text(); text != nullptr && !text->empty())
    return characters_of(*text, 0, 1);
  const List items = elements(input);
  return items.empty() ? Value(Value::Undefined{"the first item of nothing"}) : items.front();
}
Value last_of(const Value& input) {
  const List items = elements(input);
  return items.empty() ? Value(Value::Undefined{"the last item of nothing"}) : items.back();
}

Value reversed(const Value& input) {
  if (input.text() != nullptr) {
    const Text& text = *input.text();
    Text made;
    for (size_t end = text.size(), at = end; at > 0; end = at) {
      do --at;
      while (at > 0 && !begins_character(text.bytes()[at]));
      made.append_part(text, at, end - at);
    }
    return made;
  }
  List items = elements(input);
  std::reverse(items.begin(), items.end());
  return items;
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
const NamedFilter kFilters[] = {
    {"abs",
     [](const Value& v, const Arguments&) {
       if (!v.is_number()) refuse_type("abs", v);
       return v.is_float() || v.integer() == INT64_MIN ? Value(std::abs(v.real()))
                                                       : Value(std::abs(v.integer()));
     }},
    {"capitalize", [](const Value& v, const Arguments&) { return Value(capitalized(to_text(v))); }},
    {"count", [](const Value& v, const Arguments&) { return Value(length(v)); }},
    {"d", [](const Value& v, const Arguments& a) { return find_filter("default")(v, a); }},
    {"default",
     [](const Value& v, const Arguments& a) {
       const Reader read("default", a, 2);
       const Value* const otherwise = read.find(0, "default_value");
       if (!v.is_undefined() && (v.is_true() || !read.flag(1, "boolean"))) return v;
       return otherwise != nullptr ? *otherwise : Value("");
     }},
    {"dictsort", sorted_dict},
    {"first", [](const Value& v, const Arguments&) { return first_of(v); }},
    {"float", to_real},
    {"indent", indented},
    {"int", to_integer},
    {"items",
     [](const Value& v, const Arguments&) {
       if (v.is_undefined()) return Value(List());
       if (v.dict() == nullptr) refuse_type("items", v);
       return items_of(*v.dict());
     }},
    {"join",
     [](const Value& v, const Arguments& a) {
       const Reader read("join", a, 2);
       const Value* const separator = read.find(0, "d");
       const Value* const attribute = read.find(1, "attribute");
       Value items = v;
       if (attribute != nullptr && !attribute->is_none()) {
         List found;
         for (const Value& item : elements(v)) found.push_back(at_path(item, *attribute));
         items = found;
       }
       return Value(joined(items, separator != nullptr ? to_text(*separator) : Text(), true));
     }},
    {"last", [](const Value& v, const Arguments&) { return last_of(v); }},
    {"length", [](const Value& v, const Arguments&) { return Value(length(v)); }},
    {"list", [](const Value& v, const Arguments&) { return Value(elements(v)); }},
    {"lower", [](const Value& v, const Arguments&) { return Value(lower_case(to_text(v))); }},
    {"map", map},
    {"max", [](const Value& v, const Arguments& a) { return extreme(v, a, true); }},
    {"min", [](const Value& v, const Arguments& a) { return extreme(v, a, false); }},
    {"reject", [](const Value& v, const Arguments& a) { return chosen(v, a, false, false); }},
    {"rejectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, false, true); }},
    {"replace",
     [](const Value& v, const Arguments& a) {
       const Reader read("replace", a, 3);
       return Value(replaced(to_text(v), to_text(read.at(0, "old")), to_text(read.at(1, "new")),
                             read.integer(2, "count", -1)));
     }},
    {"reverse", [](const Value& v, const Arguments&) { return reversed(v); }},
    {"round", rounded},
    {"safe", [](const Value& v, const Arguments&) { return Value(to_text(v)); }},
    {"select", [](const Value& v, const Arguments& a) { return chosen(v, a, true, false); }},
    {"selectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, true); }},
    {"sort", sorted},
    {"string", [](const Value& v, const Arguments&) { return Value(to_text(v)); }},
    {"sum", sum},
    {"title", [](const Value& v, const Arguments&) { return Value(title_case(to_text(v), true)); }},
    {"tojson", json},
    {"trim", [](const Value& v,
                const Arguments& a) { return Value(stripped(to_text(v), a.find(0, "chars"), true, true)); }},
    {"unique", unique},
    {"upper", [](const Value& v, const Arguments&) { return Value(upper_case(to_text(v))); }},
};
}  // namespace

Filter find_filter(std::string_view name) {
  const auto* const found = find_in(kFilters, name);
  return found == nullptr ? nullptr : found->filter;
}
std::vector<std::string> filter_names() {
  return names_in(kFilters);
}
}  // namespace weft::jinja
