#include "jinja/functions.hpp"
#include "jinja/reader.hpp"

namespace weft::jinja {

namespace {

Value range(const Arguments& arguments) {
  constexpr int64_t kMost = 100'000;
  const Reader read("range()", arguments, 3);
  const bool one = arguments.positional.size() == 1;
  const int64_t begin = one ? 0 : read.integer(0, "start"), end = read.integer(one ? 0 : 1, "stop"),
                step = read.integer(2, "step", 1);
  if (step == 0) fail(WEFT_INVALID_ARGUMENT, "the step of range() is 0");
  List numbers;
  bool overflows = false;
  for (int64_t i = begin; !overflows && (step > 0 ? i < end : i > end);
       overflows = __builtin_add_overflow(i, step, &i)) {
    if (static_cast<int64_t>(numbers.size()) == kMost)
      fail(WEFT_INVALID_ARGUMENT, "range() has more than {} numbers", kMost);
    numbers.emplace_back(i);
  }
  return numbers;
}

Dict dict_of(const Arguments& arguments) {
  Dict made;
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional.front();
    if (first.dict() == nullptr || arguments.positional.size() > 1) refuse_type("dict()", first);
    made = *first.dict();
  }
  for (const auto& [name, value] : arguments.named) made.set(Value(name), value);
  return made;
}
}  // namespace

Namespaces::~Namespaces() {
  for (const auto& attributes : made_) *attributes = Dict();
}

Value Namespaces::make(Dict attributes) {
  made_.push_back(std::make_shared<Dict>(std::move(attributes)));
  return Value::Namespace{made_.back()};
}

void set_globals(Scope& scope, Namespaces& namespaces) {
  scope.set("range", Value::Function(range));
  scope.set("dict", Value::Function([](const Arguments& arguments) { return Value(dict_of(arguments)); }));
  scope.set("namespace", Value::Function([&namespaces](const Arguments& arguments) {
              return namespaces.make(dict_of(arguments));
            }));
  scope.set("raise_exception", Value::Function([](const Arguments& arguments) -> Value {
              const Value* const message = arguments.find(0, "message");
              fail(WEFT_INVALID_ARGUMENT, "the chat template refuses it: {}",
                   message == nullptr ? "" : printable(to_text(*message).bytes(), 200));
            }));
}

}  // namespace weft::jinja
