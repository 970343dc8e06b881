// The filters, tests, methods and global functions of Jinja and Python that templates may use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/rendering.hpp"
#include "jinja/value.hpp"

namespace weft::jinja {

using Filter = Value (*)(const Value& input, const Arguments& arguments);
using Test = bool (*)(const Value& input, const Arguments& arguments);

// Return null if there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();

// Returns the method of a string, list or dict, bound to it; nothing if it has none of that name.
std::optional<Value> find_method(const Value& object, std::string_view name);

// Returns what items() of a dict returns.
Value items_of(const Dict& dict);

// What namespace() has made. Its end takes the attributes away, in which namespaces may own each other.
class Namespaces {
 public:
  Namespaces() = default;
  Namespaces(const Namespaces&) = delete;
  ~Namespaces();
  Value make(Dict attributes);

 private:
  std::vector<std::shared_ptr<Dict>> made_;
};

// Sets range, namespace, dict and raise_exception.
void set_globals(Scope& scope, Namespaces& namespaces);

// Returns object.name, and object[key]: undefined if there is none. Throw INVALID_ARGUMENT if the object is
// undefined itself.
Value attribute_of(const Value& object, const std::string& name);
Value item_of(const Value& object, const Value& key);
// Returns whether the container has the item: a part of a string, a key of a dict.
bool contains(const Value& container, const Value& item);

}  // namespace weft::jinja
