#include "jinja/expression_parser.hpp"

#include <charconv>

#include "jinja/functions.hpp"

namespace weft::jinja {

ExpressionPtr ExpressionParser::part(Expression& of, ExpressionPtr part) const {
  constexpr size_t kHighest = 500;
  if (part == nullptr) return part;
  of.height = std::max(of.height, part->height + 1);
  if (of.height > kHighest)
    refuse(
        fmt::format("more than {} expressions are inside each other; divide it with {{% set %}}", kHighest));
  return part;
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_condition) {
  const auto parse_one = [&] { return with_condition ? parse_expression() : parse_or(); };
  ExpressionPtr first = parse_one();
  if (!is_symbol(",")) return first;
  auto list = std::make_unique<ListOf>();
  list->is_tuple = true;
  list->items.push_back(part(*list, std::move(first)));
  while (take_symbol(",")) {
    if (now().kind == Kind::kPrintEnd || now().kind == Kind::kBlockEnd || is_symbol(")")) break;
    list->items.push_back(part(*list, parse_one()));
  }
  return list;
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Level level(*this);
  ExpressionPtr value = parse_or();
  while (take_word("if")) {
    auto made = std::make_unique<Conditional>();
    made->yes = part(*made, std::move(value));
    made->condition = part(*made, parse_or());
    if (take_word("else")) made->no = part(*made, parse_expression());
    value = std::move(made);
  }
  return value;
}

ExpressionPtr ExpressionParser::logical(bool is_and, ExpressionPtr left, ExpressionPtr right) {
  auto made = std::make_unique<Logical>();
  made->is_and = is_and;
  made->left = part(*made, std::move(left));
  made->right = part(*made, std::move(right));
  return made;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (take_word("or")) left = logical(false, std::move(left), parse_and());
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (take_word("and")) left = logical(true, std::move(left), parse_not());
  return left;
}

ExpressionPtr ExpressionParser::unary(std::string symbol, ExpressionPtr input) {
  auto made = std::make_unique<Unary>();
  made->symbol = std::move(symbol);
  made->input = part(*made, std::move(input));
  return made;
}

ExpressionPtr ExpressionParser::parse_not() {
  const Level level(*this);
  return take_word("not") ? unary("not", parse_not()) : parse_comparison();
}

ExpressionPtr ExpressionParser::parse_comparison() {
  ExpressionPtr first = parse_binary(0);
  auto made = std::make_unique<Comparison>();
  while (true) {
    std::string symbol = now().text;
    if (now().kind == Kind::kSymbol && is_one_of(symbol, {"==", "!=", "<", "<=", ">", ">="})) {
      ++at_;
    } else if (is_word("in")) {
      ++at_;
    } else if (is_word("not") && tokens_[at_ + 1].kind == Kind::kName && tokens_[at_ + 1].text == "in") {
      symbol = "not in";
      at_ += 2;
    } else {
      break;
    }
    made->others.emplace_back(symbol, part(*made, parse_binary(0)));
  }
  if (made->others.empty()) return first;
  made->first = part(*made, std::move(first));
  return made;
}

ExpressionPtr ExpressionParser::parse_binary(size_t level) {
  static const std::vector<std::vector<std::string_view>> kLevels = {
      {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  if (level == kLevels.size()) return parse_unary(true);
  ExpressionPtr left = parse_binary(level + 1);
  while (now().kind == Kind::kSymbol && is_one_of(now().text, kLevels[level])) {
    auto made = std::make_unique<Binary>();
    made->symbol = tokens_[at_++].text;
    made->left = part(*made, std::move(left));
    made->right = part(*made, parse_binary(level + 1));
    left = std::move(made);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr value;
  if (is_symbol("-") || is_symbol("+")) {
    std::string symbol = tokens_[at_++].text;
    value = unary(std::move(symbol), parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = now();
  switch (token.kind) {
    case Kind::kName:
      ++at_;
      if (is_one_of(token.text, {"true", "True"})) return std::make_unique<Literal>(Value(true));
      if (is_one_of(token.text, {"false", "False"})) return std::make_unique<Literal>(Value(false));
      if (is_one_of(token.text, {"none", "None"})) return std::make_unique<Literal>(Value(Value::None()));
      return std::make_unique<Name>(token.text);
    case Kind::kString: {
      std::string text;
      while (now().kind == Kind::kString) text += tokens_[at_++].text;
      return std::make_unique<Literal>(Value(text));
    }
    case Kind::kInteger:
    case Kind::kReal:
      ++at_;
      return std::make_unique<Literal>(number(token));
    default:
      break;
  }
  if (take_symbol("(")) {
    if (take_symbol(")")) {
      auto empty = std::make_unique<ListOf>();
      empty->is_tuple = true;
      return empty;
    }
    ExpressionPtr value = parse_tuple(true);
    expect_symbol(")");
    return value;
  }
  if (take_symbol("[")) {
    auto list = std::make_unique<ListOf>();
    parse_items("]", [&] { list->items.push_back(part(*list, parse_expression())); });
    return list;
  }
  if (take_symbol("{")) {
    auto dict = std::make_unique<DictOf>();
    parse_items("}", [&] {
      ExpressionPtr key = part(*dict, parse_expression());
      expect_symbol(":");
      dict->items.emplace_back(std::move(key), part(*dict, parse_expression()));
    });
    return dict;
  }
  refuse(fmt::format("found {}, must be a value", found()));
}

Value ExpressionParser::number(const Token& token) const {
  const char* const end = token.text.data() + token.text.size();
  const auto read = [&](auto value) -> Value {
    if (std::from_chars(token.text.data(), end, value).ec != std::errc())
      refuse(fmt::format("{} is too large", printable(token.text, 40)));
    return value;
  };
  return token.kind == Kind::kReal ? read(0.0) : read(int64_t{0});
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (take_symbol(".")) {
      if (now().kind == Kind::kInteger) {
        auto made = std::make_unique<ItemOf>();
        made->object = part(*made, std::move(value));
        made->key = std::make_unique<Literal>(number(tokens_[at_++]));
        value = std::move(made);
        continue;
      }
      auto made = std::make_unique<AttributeOf>();
      made->object = part(*made, std::move(value));
      made->name = take_name();
      value = std::move(made);
    } else if (take_symbol("[")) {
      value = parse_subscript(std::move(value));
    } else if (is_symbol("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr function) {
  auto made = std::make_unique<Call>();
  made->function = part(*made, std::move(function));
  made->arguments = parse_arguments(*made);
  return made;
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const auto index = [&]() -> ExpressionPtr {
    return is_symbol(":") || is_symbol("]") ? nullptr : parse_expression();
  };
  ExpressionPtr first = index();
  if (!is_symbol(":")) {
    if (first == nullptr) refuse("found ], must be an index");
    auto made = std::make_unique<ItemOf>();
    made->object = part(*made, std::move(object));
    made->key = part(*made, std::move(first));
    expect_symbol("]");
    return made;
  }
  auto made = std::make_unique<SliceOf>();
  made->object = part(*made, std::move(object));
  made->begin = part(*made, std::move(first));
  expect_symbol(":");
  made->end = part(*made, index());
  if (take_symbol(":")) made->step = part(*made, index());
  expect_symbol("]");
  return made;
}

CallArguments ExpressionParser::parse_arguments(Expression& of) {
  const Level level(*this);
  CallArguments arguments;
  expect_symbol("(");
  parse_items(")", [&] {
    if (is_symbol("*") || is_symbol("**"))
      fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know {} in calls", now().line, now().text);
    if (now().kind == Kind::kName && tokens_[at_ + 1].kind == Kind::kSymbol && tokens_[at_ + 1].text == "=") {
      std::string name = take_name();
      ++at_;
      arguments.named.emplace_back(std::move(name), part(of, parse_expression()));
      return;
    }
    if (!arguments.named.empty()) refuse("an argument without a name follows one with a name");
    arguments.positional.push_back(part(of, parse_expression()));
  });
  return arguments;
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr value) {
  while (true) {
    if (take_symbol("|")) {
      auto made = std::make_unique<Filtered>();
      made->filter = take_filter();
      made->input = part(*made, std::move(value));
      if (is_symbol("(")) made->arguments = parse_arguments(*made);
      value = std::move(made);
    } else if (take_word("is")) {
      value = parse_test(std::move(value));
    } else if (is_symbol("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  auto made = std::make_unique<Tested>();
  made->negated = take_word("not");
  const size_t line = now().line;
  const std::string name = take_dotted_name();
  made->test = find_test(name);
  if (made->test == nullptr)
    fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know the test {}{}", line, printable(name, 40),
         did_you_mean(name, test_names()));
  made->input = part(*made, std::move(input));
  if (is_symbol("(")) {
    made->arguments = parse_arguments(*made);
  } else if ((now().kind == Kind::kName &&
              !is_one_of(now().text, {"else", "or", "and", "if", "is", "in", "not", "recursive"})) ||
             now().kind == Kind::kString || now().kind == Kind::kInteger || now().kind == Kind::kReal ||
             is_symbol("[") || is_symbol("{")) {
    made->arguments.positional.push_back(part(*made, parse_postfix(parse_primary())));
  }
  return made;
}

std::string ExpressionParser::take_dotted_name() {
  std::string name = take_name();
  while (take_symbol(".")) name += "." + take_name();
  return name;
}

Filter ExpressionParser::take_filter() {
  const size_t line = now().line;
  const std::string name = take_dotted_name();
  const Filter filter = find_filter(name);
  if (filter == nullptr)
    fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know the filter {}{}", line, printable(name, 40),
         did_you_mean(name, filter_names()));
  return filter;
}

}  // namespace weft::jinja
