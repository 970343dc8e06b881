// The expressions of a template. They evaluate themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/functions.hpp"
#include "jinja/rendering.hpp"
#include "jinja/value.hpp"

namespace weft::jinja {

struct Expression {
  virtual ~Expression() = default;
  Value evaluate(const Place& place) const {
    place.limits.step();
    place.limits.enter();
    Value value = value_at(place);
    place.limits.leave();
    return value;
  }
  size_t height = 1;  // how many expressions are inside of each other

 protected:
  virtual Value value_at(const Place& place) const = 0;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

// The arguments of a call, a filter or a test.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;

  Arguments evaluate(const Place& place) const;
};

struct Literal final : Expression {
  explicit Literal(Value of) : value(std::move(of)) {}
  Value value_at(const Place&) const override { return value; }
  const Value value;
};

struct Name final : Expression {
  explicit Name(std::string of) : name(std::move(of)) {}
  Value value_at(const Place& place) const override;
  const std::string name;
};

struct ListOf final : Expression {
  Value value_at(const Place& place) const override;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};

struct DictOf final : Expression {
  Value value_at(const Place& place) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};

// object.name
struct AttributeOf final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr object;
  std::string name;
};

// object[key]
struct ItemOf final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr object, key;
};

// object[begin:end:step], each of which may be null
struct SliceOf final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr object, begin, end, step;
};

struct Call final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr function;
  CallArguments arguments;
};

struct Filtered final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr input;
  Filter filter = nullptr;
  CallArguments arguments;
};

struct Tested final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr input;
  Test test = nullptr;
  CallArguments arguments;
  bool negated = false;
};

// "not x", "-x" and "+x"
struct Unary final : Expression {
  Value value_at(const Place& place) const override;
  std::string symbol;
  ExpressionPtr input;
};

// Arithmetic and ~
struct Binary final : Expression {
  Value value_at(const Place& place) const override;
  std::string symbol;
  ExpressionPtr left, right;
};

// "and" and "or"
struct Logical final : Expression {
  Value value_at(const Place& place) const override;
  bool is_and = true;
  ExpressionPtr left, right;
};

// a < b <= c
struct Comparison final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> others;
};

// yes if condition else no; without `no` the value may be undefined
struct Conditional final : Expression {
  Value value_at(const Place& place) const override;
  ExpressionPtr condition, yes, no;
};

}  // namespace weft::jinja
