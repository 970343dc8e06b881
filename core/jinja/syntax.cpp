#include "jinja/syntax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "jinja/characters.hpp"
#include "jinja/functions.hpp"

namespace weft::jinja {

Flow run(const Body& body, const Place& place) {
  for (const auto& statement : body) {
    place.limits.step();
    if (const Flow flow = statement->run(place); flow != Flow::kGoOn) return flow;
  }
  return Flow::kGoOn;
}

Arguments CallArguments::evaluate(const Place& place) const {
  Arguments arguments;
  for (const ExpressionPtr& argument : positional) arguments.positional.push_back(argument->evaluate(place));
  for (const auto& [name, argument] : named) arguments.named.emplace_back(name, argument->evaluate(place));
  return arguments;
}

Value Name::evaluate(const Place& place) const {
  const Value* const found = place.scope->find(name);
  return found != nullptr ? *found : Value(Value::Undefined{name});
}

Value ListOf::evaluate(const Place& place) const {
  List list;
  if (is_tuple) list.kind = ListKind::kTuple;
  for (const ExpressionPtr& item : items) list.push_back(item->evaluate(place));
  return list;
}

Value DictOf::evaluate(const Place& place) const {
  Dict dict;
  for (const auto& [key, value] : items) dict.set(key->evaluate(place), value->evaluate(place));
  return dict;
}

Value AttributeOf::evaluate(const Place& place) const {
  return attribute_of(object->evaluate(place), name);
}

Value ItemOf::evaluate(const Place& place) const {
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

Value SliceOf::evaluate(const Place& place) const {
  const auto value_of = [&](const ExpressionPtr& part) {
    return part == nullptr ? Value(Value::None()) : part->evaluate(place);
  };
  const Value of = object->evaluate(place);
  const Text* const text = of.text();
  if (text == nullptr && of.list() == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "a value of the type {} has no slices", of.type());
  const List items = elements(of);
  const Range range =
      range_of(value_of(begin), value_of(end), value_of(step), static_cast<int64_t>(items.size()));
  List chosen;
  if (text == nullptr) chosen.kind = of.list()->kind;
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end; i += range.step)
    chosen.push_back(items[static_cast<size_t>(i)]);
  if (text == nullptr) return chosen;
  Text joined;
  for (const Value& character : chosen) joined.append(*character.text());
  return joined;
}

Value Call::evaluate(const Place& place) const {
  const Value called = function->evaluate(place);
  if (called.function() == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "{} cannot be called",
         called.is_undefined() ? fmt::format("\"{}\", which is undefined,", called.undefined_name())
                               : fmt::format("a value of the type {}", called.type()));
  place.limits.enter_call();
  Value result = (*called.function())(arguments.evaluate(place));
  place.limits.leave_call();
  if (const Text* const text = result.text()) place.limits.write(text->size());
  if (const List* const list = result.list()) place.limits.write(list->size());
  return result;
}

Value Filtered::evaluate(const Place& place) const {
  const Value value = input->evaluate(place);
  Value result = find_filter(name)(value, arguments.evaluate(place));
  if (const Text* const text = result.text()) place.limits.write(text->size());
  return result;
}

Value Tested::evaluate(const Place& place) const {
  const Value value = input->evaluate(place);
  return find_test(name)(value, arguments.evaluate(place)) != negated;
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

Value Unary::evaluate(const Place& place) const {
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
  constexpr size_t kMost = 1 << 20;
  const size_t size = value.text() != nullptr ? value.text()->size() : value.list()->size();
  if (count > 0 && size > kMost / static_cast<size_t>(count))
    fail(WEFT_INVALID_ARGUMENT, "{} * {} is too large", value.type(), count);
  Text text;
  List list;
  for (int64_t i = 0; i < count; ++i) {
    if (value.text() != nullptr)
      text.append(*value.text());
    else
      list.insert(list.end(), value.list()->begin(), value.list()->end());
  }
  return value.text() != nullptr ? Value(text) : Value(list);
}

}  // namespace

Value Binary::evaluate(const Place& place) const {
  const Value a = left->evaluate(place), b = right->evaluate(place);
  if (symbol == "~" || (symbol == "+" && a.text() != nullptr && b.text() != nullptr)) {
    Text text = to_text(a);
    text.append(to_text(b));
    place.limits.write(text.size());
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

Value Logical::evaluate(const Place& place) const {
  Value value = left->evaluate(place);
  return value.is_true() == is_and ? right->evaluate(place) : value;
}

Value Comparison::evaluate(const Place& place) const {
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

Value Conditional::evaluate(const Place& place) const {
  if (condition->evaluate(place).is_true()) return yes->evaluate(place);
  return no != nullptr ? no->evaluate(place) : Value();
}

Flow Print::run(const Place& place) const {
  place.print(to_text(expression->evaluate(place)));
  return Flow::kGoOn;
}

Flow If::run(const Place& place) const {
  for (const auto& [condition, body] : branches)
    if (condition->evaluate(place).is_true()) return jinja::run(body, place);
  return jinja::run(otherwise, place);
}

void Target::assign(const Place& place, const Value& value) const {
  if (!attribute.empty()) {
    const Value* const object = place.scope->find(names.front());
    Dict* const attributes = object == nullptr ? nullptr : object->attributes();
    if (attributes == nullptr)
      fail(WEFT_INVALID_ARGUMENT, "{}.{} cannot be set, because {} is no namespace", names.front(), attribute,
           names.front());
    attributes->set(Value(attribute), value);
  } else if (names.size() == 1) {
    place.scope->set(names.front(), value);
  } else {
    const List items = elements(value);
    if (items.size() != names.size())
      fail(WEFT_INVALID_ARGUMENT, "{} values for the names {}", items.size(), fmt::join(names, ", "));
    for (size_t i = 0; i < names.size(); ++i) place.scope->set(names[i], items[i]);
  }
}

namespace {

// The variable `loop`.
Value loop_of(const List& items, size_t index) {
  const auto count = static_cast<int64_t>(items.size()), at = static_cast<int64_t>(index);
  Dict loop;
  loop.add("index", at + 1);
  loop.add("index0", at);
  loop.add("revindex", count - at);
  loop.add("revindex0", count - at - 1);
  loop.add("first", index == 0);
  loop.add("last", index + 1 == items.size());
  loop.add("length", count);
  loop.add("depth", int64_t{1});  // of recursive loops alone
  loop.add("depth0", int64_t{0});
  if (index > 0) loop.add("previtem", items[index - 1]);
  if (index + 1 < items.size()) loop.add("nextitem", items[index + 1]);
  loop.add("cycle", Value::Function([at](const Arguments& arguments) {
             if (arguments.positional.empty()) fail(WEFT_INVALID_ARGUMENT, "loop.cycle() needs values");
             return arguments.positional[static_cast<size_t>(at) % arguments.positional.size()];
           }));
  return loop;
}

}  // namespace

Flow For::run_once(const Place& place, const List& items, size_t index) const {
  place.limits.step();
  const Place inside = place.with_scope();
  inside.scope->set("loop", loop_of(items, index));
  target.assign(inside, items[index]);
  return jinja::run(body, inside);
}

Flow For::run(const Place& place) const {
  List items;
  for (Value& item : elements(sequence->evaluate(place))) {
    if (condition != nullptr) {
      place.limits.step();
      const Place inside = place.with_scope();
      target.assign(inside, item);
      if (!condition->evaluate(inside).is_true()) continue;
    }
    items.push_back(std::move(item));
  }
  for (size_t index = 0; index < items.size(); ++index)
    if (run_once(place, items, index) == Flow::kBreak) break;
  return items.empty() ? jinja::run(otherwise, place) : Flow::kGoOn;
}

namespace {

// Returns what the body prints.
Text printed(const Body& body, const Place& place) {
  Output output;
  jinja::run(body, Place{std::make_shared<Scope>(place.scope), output, place.limits});
  return std::move(output.text);
}

}  // namespace

Flow Set::run(const Place& place) const {
  target.assign(place, value != nullptr ? value->evaluate(place) : Value(printed(body, place)));
  return Flow::kGoOn;
}

Flow With::run(const Place& place) const {
  const Place inside = place.with_scope();
  for (const auto& [name, value] : values) inside.scope->set(name, value->evaluate(place));
  return jinja::run(body, inside);
}

Flow Macro::run(const Place& place) const {
  // The scope owns the macro, so the macro must not own the scope.
  const std::weak_ptr<Scope> scope = place.scope;
  Limits& limits = place.limits;
  place.scope->set(name, Value::Function([this, scope, &limits](const Arguments& arguments) {
                     Output output;
                     call(Place{std::make_shared<Scope>(scope.lock()), output, limits}, arguments);
                     return Value(std::move(output.text));
                   }));
  return Flow::kGoOn;
}

void Macro::call(const Place& inside, const Arguments& arguments) const {
  if (arguments.positional.size() > parameters.size())
    fail(WEFT_INVALID_ARGUMENT, "{}() takes {} arguments, got {}", name, parameters.size(),
         arguments.positional.size());
  for (const auto& [given, value] : arguments.named) {
    const auto is_this = [n = &given](const auto& parameter) { return parameter.first == *n; };
    if (std::none_of(parameters.begin(), parameters.end(), is_this))
      fail(WEFT_INVALID_ARGUMENT, "{}() has no parameter {}", name, given);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [parameter, otherwise] = parameters[i];
    Value value = Value::Undefined{parameter};
    if (const Value* const given = arguments.find(i, parameter))
      value = *given;
    else if (otherwise != nullptr)
      value = otherwise->evaluate(inside);
    inside.scope->set(parameter, std::move(value));
  }
  jinja::run(body, inside);
}

Flow FilterBlock::run(const Place& place) const {
  place.print(to_text(find_filter(name)(printed(body, place), arguments.evaluate(place))));
  return Flow::kGoOn;
}

Flow Generation::run(const Place& place) const {
  const size_t begin = place.output.text.size();
  const Flow flow = jinja::run(body, place);
  place.output.generated.emplace_back(begin, place.output.text.size());
  return flow;
}

}  // namespace weft::jinja
