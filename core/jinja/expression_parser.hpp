// Reads the expressions of a template from its tokens.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "jinja/expressions.hpp"
#include "jinja/lexer.hpp"

namespace weft::jinja {

template <class List = std::initializer_list<std::string_view>>
bool is_one_of(std::string_view word, const List& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view source) : tokens_(tokens_of(source)) {}

 protected:
  using Kind = Token::Kind;

  // Counts how deep the parser is in the template, so that none exhausts the stack.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      constexpr int kMostLevels = 200;
      if (++parser.level_ > kMostLevels) parser.refuse("too many brackets or blocks are open");
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& now() const { return tokens_[at_]; }
  [[noreturn]] void refuse(const std::string& problem) const {
    fail(WEFT_INVALID_ARGUMENT, "line {}: {}", now().line, problem);
  }
  std::string found() const {
    switch (now().kind) {
      case Kind::kEnd:
        return "the end of the template";
      case Kind::kText:
        return "text";
      case Kind::kPrintBegin:
      case Kind::kBlockBegin:
        return "a tag";
      case Kind::kPrintEnd:
        return "}}";
      case Kind::kBlockEnd:
        return "%}";
      default:
        return fmt::format("\"{}\"", printable(now().text, 40));
    }
  }
  bool is(Kind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_symbol(std::string_view text) const { return is(Kind::kSymbol, text); }
  bool is_word(std::string_view text) const { return is(Kind::kName, text); }
  bool take(Kind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool take_symbol(std::string_view text) { return take(Kind::kSymbol, text); }
  bool take_word(std::string_view text) { return take(Kind::kName, text); }
  void expect_symbol(std::string_view text) {
    if (!take_symbol(text)) refuse(fmt::format("found {}, must be {}", found(), text));
  }
  void expect_word(std::string_view text) {
    if (!take_word(text)) refuse(fmt::format("found {}, must be {}", found(), text));
  }
  void expect(Kind kind) {
    if (now().kind != kind)
      refuse(fmt::format("found {}, must be {}", found(), kind == Kind::kPrintEnd ? "}}" : "%}"));
    ++at_;
  }
  std::string take_name() {
    if (now().kind != Kind::kName) refuse(fmt::format("found {}, must be a name", found()));
    return tokens_[at_++].text;
  }

  // Returns a part of an expression that is being made. Counts its height, so that none exhausts the stack.
  ExpressionPtr part(Expression& of, ExpressionPtr part) const;

  // Expressions, from those that bind least to those that bind most.
  // Returns an expression, or a list of those between commas. Behind `for ... in` a condition belongs to the
  // loop, so that expressions have none.
  ExpressionPtr parse_tuple(bool with_condition);
  ExpressionPtr parse_expression();
  ExpressionPtr logical(bool is_and, ExpressionPtr left, ExpressionPtr right);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr unary(std::string symbol, ExpressionPtr input);
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_binary(size_t level);
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  template <class Parse>
  void parse_items(std::string_view end, const Parse& parse_item) {
    for (bool first = true; !take_symbol(end); first = false) {
      if (!first) {
        expect_symbol(",");
        if (take_symbol(end)) return;
      }
      parse_item();
    }
  }
  Value number(const Token& token) const;
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_call(ExpressionPtr function);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  CallArguments parse_arguments(Expression& of);
  ExpressionPtr parse_filters(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr input);
  std::string take_dotted_name();
  Filter take_filter();

  const std::vector<Token> tokens_;
  size_t at_ = 0;

 private:
  int level_ = 0;
};

}  // namespace weft::jinja
