#include "jinja/statements.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::jinja {

Flow run(const Body& body, const Place& place) {
  const size_t outer = place.limits.line();
  Flow flow = Flow::kGoOn;
  place.limits.enter();
  for (const StatementPtr& statement : body) {
    place.limits.step();
    place.limits.go_to(statement->line);
    flow = statement->run(place);
    if (flow != Flow::kGoOn) break;
  }
  place.limits.leave();
  place.limits.go_to(outer);
  return flow;
}

Flow Print::run(const Place& place) const {
  const Value value = expression->evaluate(place);
  if (const Text* const text = value.text())
    place.print(*text);
  else
    place.print(to_text(value));
  return Flow::kGoOn;
}

Flow If::run(const Place& place) const {
  for (const auto& [begin, condition, body] : branches) {
    place.limits.go_to(begin);
    if (condition->evaluate(place).is_true()) return jinja::run(body, place);
  }
  return jinja::run(otherwise, place);
}

void Target::assign(const Place& place, const Value& value) const {
  if (!attribute.empty()) {
    const Value* const object = place.scope->find(names.front(), place.limits);
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
      fail(WEFT_INVALID_ARGUMENT, "{} values for the names {}", items.size(),
           printable(fmt::format("{}", fmt::join(names, ", "))));
    for (size_t i = 0; i < names.size(); ++i) place.scope->set(names[i], items[i]);
  }
}

namespace {

// The variable `loop`.
Value loop_of(const List& items, size_t index) {
  const auto count = static_cast<int64_t>(items.size()), at = static_cast<int64_t>(index);
  static const Value kIndex("index"), kIndex0("index0"), kRevindex("revindex"), kRevindex0("revindex0"),
      kFirst("first"), kLast("last"), kLength("length"), kDepth("depth"), kDepth0("depth0"),
      kPrevious("previtem"), kNext("nextitem"), kCycle("cycle");
  Dict loop;
  loop.add(kIndex, at + 1);
  loop.add(kIndex0, at);
  loop.add(kRevindex, count - at);
  loop.add(kRevindex0, count - at - 1);
  loop.add(kFirst, index == 0);
  loop.add(kLast, index + 1 == items.size());
  loop.add(kLength, count);
  loop.add(kDepth, int64_t{1});  // of recursive loops alone
  loop.add(kDepth0, int64_t{0});
  if (index > 0) loop.add(kPrevious, items[index - 1]);
  if (index + 1 < items.size()) loop.add(kNext, items[index + 1]);
  loop.add(kCycle, Value::Function([at](const Arguments& arguments) {
             if (arguments.positional.empty()) fail(WEFT_INVALID_ARGUMENT, "loop.cycle() needs values");
             return arguments.positional[static_cast<size_t>(at) % arguments.positional.size()];
           }));
  return loop;
}

}  // namespace

Flow For::run_once(const Place& place, const List& items, size_t index) const {
  place.limits.step(20);  // about what it takes to make `loop`
  const Place inside = place.with_scope();
  inside.scope->set("loop", loop_of(items, index));
  target.assign(inside, items[index]);
  return jinja::run(body, inside);
}

Flow For::run(const Place& place) const {
  List items;
  for (Value& item : elements(sequence->evaluate(place))) {
    if (condition != nullptr) {
      place.limits.step(5);
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
  place.print(to_text(filter(printed(body, place), arguments.evaluate(place))));
  return Flow::kGoOn;
}

Flow Generation::run(const Place& place) const {
  const size_t begin = place.output.text.size();
  const Flow flow = jinja::run(body, place);
  place.output.generated.emplace_back(begin, place.output.text.size());
  return flow;
}

}  // namespace weft::jinja
