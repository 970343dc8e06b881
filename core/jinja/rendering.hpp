// The state of a rendering: variables and output.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/limits.hpp"
#include "jinja/value.hpp"

namespace weft::jinja {

// The variables of the template, or of a loop or a macro in it.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> outer = nullptr) : outer_(std::move(outer)) {}
  const Value* find(const std::string& name, Limits& limits) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer_.get(), limits.step())
      if (const auto found = scope->values_.find(name); found != scope->values_.end()) return &found->second;
    return nullptr;
  }
  void set(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  const std::shared_ptr<Scope> outer_;
  std::map<std::string, Value> values_;
};

struct Output {
  Text text;
  std::vector<std::pair<size_t, size_t>> generated;  // what {% generation %} blocks wrote: begins and ends
};

// Where a node runs.
struct Place {
  std::shared_ptr<Scope> scope;
  Output& output;
  Limits& limits;

  void print(const Text& text) const {
    limits.print(text.size());
    output.text.append(text);
  }
  Place with_scope() const { return {std::make_shared<Scope>(scope), output, limits}; }
};

}  // namespace weft::jinja
