// The statements of a template. They run themselves.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/expressions.hpp"

namespace weft::jinja {

// What a statement tells the loop around it.
enum class Flow { kGoOn, kContinue, kBreak };

struct Statement {
  virtual ~Statement() = default;
  virtual Flow run(const Place& place) const = 0;
  size_t line = 0;  // where its tag is
};
using StatementPtr = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPtr>;
// Runs the statements in their order, up to one that does not go on. An error leaves the limits at its line.
Flow run(const Body& body, const Place& place);

// Text, or {{ expression }}
struct Print final : Statement {
  Flow run(const Place& place) const override;
  ExpressionPtr expression;
};

struct If final : Statement {
  struct Branch {
    size_t line;
    ExpressionPtr condition;
    Body body;
  };
  Flow run(const Place& place) const override;
  std::vector<Branch> branches;
  Body otherwise;
};

// What for and set assign to: names, or an attribute of a namespace.
struct Target {
  void assign(const Place& place, const Value& value) const;
  std::vector<std::string> names;
  std::string attribute;  // if it is not empty, there is one name
};

struct For final : Statement {
  Flow run(const Place& place) const override;
  Target target;
  ExpressionPtr sequence, condition;  // the second may be null
  Body body, otherwise;

 private:
  Flow run_once(const Place& place, const List& items, size_t index) const;
};

// {% set x = value %}, or what a block prints
struct Set final : Statement {
  Flow run(const Place& place) const override;
  Target target;
  ExpressionPtr value;  // null: the body
  Body body;
};

// {% with x = value %}
struct With final : Statement {
  Flow run(const Place& place) const override;
  std::vector<std::pair<std::string, ExpressionPtr>> values;
  Body body;
};

struct Macro final : Statement {
  Flow run(const Place& place) const override;
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with a default, or null
  Body body;

 private:
  // Runs the body with the parameters in the scope of `inside`.
  void call(const Place& inside, const Arguments& arguments) const;
};

// {% filter name %}
struct FilterBlock final : Statement {
  Flow run(const Place& place) const override;
  Filter filter = nullptr;
  CallArguments arguments;
  Body body;
};

// {% generation %}: what a model learns to write
struct Generation final : Statement {
  Flow run(const Place& place) const override;
  Body body;
};

struct Jump final : Statement {
  explicit Jump(Flow to) : flow(to) {}
  Flow run(const Place&) const override { return flow; }
  const Flow flow;
};

}  // namespace weft::jinja
