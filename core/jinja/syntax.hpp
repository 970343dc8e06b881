// What a template is made of. Nodes evaluate or run themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/rendering.hpp"
#include "jinja/value.hpp"

namespace weft::jinja {

struct Expression {
  virtual ~Expression() = default;
  virtual Value evaluate(const Place& place) const = 0;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

// What a statement tells the loop around it.
enum class Flow { kGoOn, kContinue, kBreak };

struct Statement {
  virtual ~Statement() = default;
  virtual Flow run(const Place& place) const = 0;
};
using Body = std::vector<std::unique_ptr<const Statement>>;
// Runs the statements in their order, up to one that does not go on.
Flow run(const Body& body, const Place& place);

// The arguments of a call, a filter or a test.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;

  Arguments evaluate(const Place& place) const;
};

struct Literal final : Expression {
  explicit Literal(Value of) : value(std::move(of)) {}
  Value evaluate(const Place&) const override { return value; }
  const Value value;
};

struct Name final : Expression {
  explicit Name(std::string of) : name(std::move(of)) {}
  Value evaluate(const Place& place) const override;
  const std::string name;
};

struct ListOf final : Expression {
  Value evaluate(const Place& place) const override;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};

struct DictOf final : Expression {
  Value evaluate(const Place& place) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};

// object.name
struct AttributeOf final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr object;
  std::string name;
};

// object[key]
struct ItemOf final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr object, key;
};

// object[begin:end:step], each of which may be null
struct SliceOf final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr object, begin, end, step;
};

struct Call final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr function;
  CallArguments arguments;
};

struct Filtered final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};

struct Tested final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
  bool negated = false;
};

// "not x", "-x" and "+x"
struct Unary final : Expression {
  Value evaluate(const Place& place) const override;
  std::string symbol;
  ExpressionPtr input;
};

// Arithmetic and ~
struct Binary final : Expression {
  Value evaluate(const Place& place) const override;
  std::string symbol;
  ExpressionPtr left, right;
};

// "and" and "or"
struct Logical final : Expression {
  Value evaluate(const Place& place) const override;
  bool is_and = true;
  ExpressionPtr left, right;
};

// a < b <= c
struct Comparison final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> others;
};

// yes if condition else no; without `no` the value may be undefined
struct Conditional final : Expression {
  Value evaluate(const Place& place) const override;
  ExpressionPtr condition, yes, no;
};

// Text, or {{ expression }}
struct Print final : Statement {
  Flow run(const Place& place) const override;
  ExpressionPtr expression;
};

struct If final : Statement {
  Flow run(const Place& place) const override;
  std::vector<std::pair<ExpressionPtr, Body>> branches;
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
  std::string name;
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
