// Values of Jinja expressions, which behave as those of Python.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/limits.hpp"
#include "jinja/text.hpp"

namespace weft::jinja {

class Value;
class Dict;
struct Arguments;

// What Python has several types for: a list, a tuple, and the views that keys(), values() and items() return.
enum class ListKind { kList, kTuple, kView };
struct List : std::vector<Value, HeldAllocator<Value>> {
  using std::vector<Value, HeldAllocator<Value>>::vector;
  ListKind kind = ListKind::kList;
};
class Value {
 public:
  // A name or attribute that does not exist. A long name is cut off.
  struct Undefined {
    std::string name;
  };
  struct None {};
  // A macro, a method or a global function. Throws INVALID_ARGUMENT for arguments that it does not take.
  using Function = std::function<Value(const Arguments&)>;
  // A dict whose attributes templates may set.
  struct Namespace {
    std::shared_ptr<Dict> attributes;
  };

  Value() = default;  // undefined
  Value(Undefined undefined);
  Value(None none) : value_(none) {}
  Value(bool value) : value_(value) {}
  Value(int64_t value) : value_(value) {}
  Value(double value) : value_(value) {}
  Value(Text text) : value_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::string text) : Value(Text(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  // Throw RESOURCE_EXHAUSTED for values inside of more than 100 others, so that none exhausts the stack.
  Value(List list);
  Value(Dict dict);
  Value(Function function) : value_(std::make_shared<const Function>(std::move(function))) {}
  // A method of a value, which it contains.
  Value(Function method, const Value& of);
  Value(Namespace value) : value_(std::move(value)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool is_none() const { return std::holds_alternative<None>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_bool() || is_integer() || is_float(); }

  // Return the value if it has that type, otherwise null. A namespace is a dict, too.
  const Text* text() const { return get<Text>(); }
  const List* list() const { return get<List>(); }
  const Dict* dict() const;
  const Function* function() const { return get<Function>(); }
  Dict* attributes() const;  // of a namespace
  const std::string& undefined_name() const { return std::get<Undefined>(value_).name; }
  // Return a number; of a bool 0 or 1. Call them if is_number().
  int64_t integer() const;
  double real() const;

  bool is_true() const;
  // Returns the name of the type in messages, as Python calls it.
  std::string type() const;

 private:
  template <class T>
  const T* get() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&value_);
    return found == nullptr ? nullptr : found->get();
  }
  void set_depth(size_t inside);

  size_t depth_ = 0;  // how many values are inside of each other
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<const Function>,
               Namespace>
      value_;
};

// What a call passes.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  // Returns the argument at a position or, if there is none, the one of that name; null if neither was given.
  const Value* find(size_t position, std::string_view name) const;
};

// Keys and values in the order in which they were added.
class Dict {
 public:
  using Items = std::vector<std::pair<Value, Value>, HeldAllocator<std::pair<Value, Value>>>;

  const Items& items() const { return items_; }
  size_t size() const { return items_.size(); }
  const Value* find(const Value& key) const;
  const Value* find_name(std::string_view name) const;
  void set(const Value& key, Value value);
  // Adds a key that the dict does not have.
  void add(Value key, Value value);

 private:
  Items::const_iterator place_of(const Value& key) const;
  Items::const_iterator place_of_name(std::string_view name) const;

  Items items_;
};

// Returns a value of JSON. Strings have the origin.
Value value_of(const nlohmann::ordered_json& json, Text::Origin origin = 0);

bool equal(const Value& a, const Value& b);
// Returns whether a < b. Throws INVALID_ARGUMENT for values that have no order.
bool less(const Value& a, const Value& b);
// Returns what a value is when it is printed: str() of Python.
Text to_text(const Value& value);
// Returns the value as JSON, as json.dumps writes it: on one line, or indented by that many spaces.
Text to_json(const Value& value, std::optional<int64_t> indent = {}, bool sort_keys = false);
// Returns the elements that a loop goes over as a plain list: of a dict the keys, of a string the characters.
// Throws INVALID_ARGUMENT for what is no sequence.
List elements(const Value& value);
int64_t length(const Value& value);

}  // namespace weft::jinja
