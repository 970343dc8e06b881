#include "jinja/expressions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "jinja/characters.hpp"
#include "jinja/strings.hpp"

namespace weft::jinja {

Arguments CallArguments::evaluate(const Place& place) const {
  Arguments arguments;
  for (const ExpressionPtr& argument : positional) arguments.positional.push_back(argument->evaluate(place));
  for (const auto& [name, argument] : named) arguments.named.emplace_back(name, argument->evaluate(place));
  return arguments;
}

Value Name::value_at(const Place& place) const {
  const Value* const found = place.scope->find(name, place.limits);
  return found != nullptr ? *found : Value(Value::Undefined{name});
}

Value ListOf::value_at(const Place& place) const {
  List list;
  if (is_tuple) list.kind = ListKind::kTuple;
  for (const ExpressionPtr& item : items) list.push_back(item->evaluate(place));
  return list;
}

Value DictOf::value_at(const Place& place) const {
  Dict dict;
  for (const auto& [key, value] : items) dict.set(key->evaluate(place), value->evaluate(place));
  return dict;
}

Value AttributeOf::value_at(const Place& place) const {
  return attribute_of(object->evaluate(place), name);
}

Value ItemOf::value_at(const Place& place) const {
  const Value of = object->evaluate(place);
  return item_of(of, key->evaluate(place));
}

namespace {

// The indices of a slice, as Python counts them.
struct Range {
  int64_t begin, end, step;
};
Range range_of(const Value& begin, const Value& end, const Value& step, int64_t length) {
  const auto given = [](const Value& value) { return !value.is_none(); };
  for (const Value& value : {begin, end, step})
    if (given(value) && !value.is_integer())
      fail(WEFT_INVALID_ARGUMENT, "a slice needs integers, not {}", value.type());
  // A longer step goes no further than one of the whole length.
  const int64_t by = std::clamp(given(step) ? step.integer() : 1, -length - 1, length + 1);
  if (by == 0) fail(WEFT_INVALID_ARGUMENT, "the step of a slice is 0");
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
  const auto place = [&](const Value& value, int64_t otherwise) {
    if (!given(value)) return otherwise;
    const int64_t index = value.integer();
    return std::clamp(index < 0 ? index + length : index, low, high);
  };
  return {place(begin, by < 0 ? high : low), place(end, by < 0 ? low : high), by};
}

}  // namespace

Value SliceOf::value_at(const Place& place) const {
  const auto value_of = [&](const ExpressionPtr& part) {
    return part == nullptr ? Value(Value::None()) : part->evaluate(place);
  };
  const Value of = object->evaluate(place);
  const Text* const text = of.text();
  if (text == nullptr && of.list() == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "a value of the type {} has no slices", of.type());
  const Range range = range_of(value_of(begin), value_of(end), value_of(step), length(of));
  if (text != nullptr && range.step == 1) return characters_of(*text, range.begin, range.end);
  const List characters = text != nullptr ? elements(of) : List();
  const List& items = text != nullptr ? characters : *of.list();
  List chosen;
  chosen.kind = items.kind;
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step)
    chosen.push_back(items[static_cast<size_t>(i)]);
  if (text == nullptr) return chosen;
  Text joined;
  for (const Value& character : chosen) joined.append(*character.text());
  return joined;
}

Value Call::value_at(const Place& place) const {
  const Value called = function->evaluate(place);
  if (called.function() == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "{} cannot be called",
         called.is_undefined() ? fmt::format("\"{}\", which is undefined,", called.undefined_name())
                               : fmt::format("a value of the type {}", called.type()));
  return (*called.function())(arguments.evaluate(place));
}

Value Filtered::value_at(const Place& place) const {
  const Value value = input->evaluate(place);
  if (const Text* const text = value.text()) place.limits.step(text->size() / kBytesPerStep);
  return filter(value, arguments.evaluate(place));
}

Value Tested::value_at(const Place& place) const {
  const Value value = input->evaluate(place);
  return test(value, arguments.evaluate(place)) != negated;
}

namespace {

Value integers(const std::string& symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (symbol == "+") overflows = __builtin_add_overflow(a, b, &result);
  if (symbol == "-") overflows = __builtin_sub_overflow(a, b, &result);
  if (symbol == "*") overflows = __builtin_mul_overflow(a, b, &result);
  if (symbol == "//" || symbol == "%") {
    overflows = a == std::numeric_limits<int64_t>::min() && b == -1;
    if (!overflows) {
      const int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);  // towards -infinity
      result = symbol == "%" ? a - quotient * b : quotient;
    }
  }
  if (overflows) fail(WEFT_INVALID_ARGUMENT, "{} {} {} is too large", a, symbol, b);
  return result;
}

}  // namespace

Value Unary::value_at(const Place& place) const {
  const Value value = input->evaluate(place);
  if (symbol == "not") return !value.is_true();
  if (!value.is_number()) fail(WEFT_INVALID_ARGUMENT, "{} of a value of the type {}", symbol, value.type());
  if (symbol == "+") return value.is_float() ? value : Value(value.integer());
  return value.is_float() ? Value(-value.real()) : integers("-", 0, value.integer());
}

namespace {

Value reals(const std::string& symbol, double a, double b) {
  if (symbol == "+") return a + b;
  if (symbol == "-") return a - b;
  if (symbol == "*") return a * b;
  if (symbol == "/") return a / b;
  if (symbol == "**") return std::pow(a, b);
  // As Python: the rest has the sign of b, and the quotient belongs to it.
  double rest = std::fmod(a, b);
  if (rest == 0)
    rest = std::copysign(0.0, b);
  else if ((rest < 0) != (b < 0))
    rest += b;
  if (symbol == "%") return rest;
  const double quotient = (a - rest) / b;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient);
}

Value numbers(const std::string& symbol, const Value& a, const Value& b) {
  if ((symbol == "/" || symbol == "//" || symbol == "%") && b.real() == 0)
    fail(WEFT_INVALID_ARGUMENT, "{} by zero", symbol);
  if (a.is_float() || b.is_float() || symbol == "/") return reals(symbol, a.real(), b.real());
  if (symbol != "**") return integers(symbol, a.integer(), b.integer());
  if (b.integer() < 0) return reals(symbol, a.real(), b.real());
  if (b.integer() > 63) fail(WEFT_INVALID_ARGUMENT, "{} ** {} is too large", a.integer(), b.integer());
  Value power(int64_t{1});
  for (int64_t i = 0; i < b.integer(); ++i) power = integers("*", power.integer(), a.integer());
  return power;
}

// Returns the text or the list `count` times.
Value repeated(const Value& value, int64_t count) {
  Text text;
  List list;
  if (!value.is_true() || count < 0) count = 0;
  {
    constexpr size_t kMost = SIZE_MAX / 4;
    const size_t size = value.text() != nullptr ? value.text()->size() : value.list()->size() * sizeof(Value);
    Held whole;  // is refused before it is made
    whole.set(count == 0 ? 0
                         : std::min(size, kMost / static_cast<size_t>(count)) * static_cast<size_t>(count));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (value.text() != nullptr)
      text.append(*value.text());
    else
      list.insert(list.end(), value.list()->begin(), value.list()->end());
  }
  return value.text() != nullptr ? Value(text) : Value(list);
}

}  // namespace

Value Binary::value_at(const Place& place) const {
  const Value a = left->evaluate(place), b = right->evaluate(place);
  if (symbol == "~" || (symbol == "+" && a.text() != nullptr && b.text() != nullptr)) {
    Text text = to_text(a);
    text.append(to_text(b));
    return text;
  }
  if (a.is_number() && b.is_number()) return numbers(symbol, a, b);
  if (symbol == "+" && a.list() != nullptr && b.list() != nullptr && a.list()->kind == b.list()->kind) {
    List list = *a.list();
    list.insert(list.end(), b.list()->begin(), b.list()->end());
    return list;
  }
  const auto repeats = [](const Value& value) { return value.text() != nullptr || value.list() != nullptr; };
  const auto counts = [](const Value& value) { return value.is_number() && !value.is_float(); };
  if (symbol == "*" && repeats(a) && counts(b)) return repeated(a, b.integer());
  if (symbol == "*" && counts(a) && repeats(b)) return repeated(b, a.integer());
  if (symbol == "%" && a.text() != nullptr)
    fail(WEFT_UNIMPLEMENTED, "Weft does not know % of strings; ~ joins values as text");
  const auto described = [](const Value& value) {
    return value.is_undefined() ? fmt::format("\"{}\", which is undefined", value.undefined_name())
                                : value.type();
  };
  fail(WEFT_INVALID_ARGUMENT, "{} of {} and {} has no value{}", symbol, described(a), described(b),
       symbol == "+" && (a.text() != nullptr || b.text() != nullptr) ? "; ~ joins any values as text" : "");
}

Value Logical::value_at(const Place& place) const {
  Value value = left->evaluate(place);
  return value.is_true() == is_and ? right->evaluate(place) : value;
}

Value Comparison::value_at(const Place& place) const {
  Value a = first->evaluate(place);
  for (const auto& [symbol, other] : others) {
    Value b = other->evaluate(place);
    const bool holds = symbol == "=="       ? equal(a, b)
                       : symbol == "!="     ? !equal(a, b)
                       : symbol == "<"      ? less(a, b)
                       : symbol == ">"      ? less(b, a)
                       : symbol == "<="     ? !less(b, a)
                       : symbol == ">="     ? !less(a, b)
                       : symbol == "not in" ? !contains(b, a)
                                            : contains(b, a);
    if (!holds) return false;
    a = std::move(b);
  }
  return true;
}

Value Conditional::value_at(const Place& place) const {
  if (condition->evaluate(place).is_true()) return yes->evaluate(place);
  return no != nullptr ? no->evaluate(place) : Value();
}

}  // namespace weft::jinja
