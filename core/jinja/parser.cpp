#include "jinja/parser.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/text.hpp"
#include "jinja/functions.hpp"
#include "jinja/lexer.hpp"

namespace weft::jinja {

namespace {

using Kind = Token::Kind;
using Words = std::initializer_list<std::string_view>;

template <class List = Words>
bool is_one_of(std::string_view word, const List& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)) {}

  Body run() {
    Body body = parse_body({});
    return body;
  }

 private:
  // Counts how deep the parser is in the template, so that none exhausts the stack.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      constexpr int kMostLevels = 200;
      if (++parser.level_ > kMostLevels) parser.refuse("too many brackets or blocks are open");
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;

   private:
    Parser& parser_;
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

  // Statements.
  bool is_end(Words ends) const {
    return now().kind == Kind::kBlockBegin && tokens_[at_ + 1].kind == Kind::kName &&
           is_one_of(tokens_[at_ + 1].text, ends);
  }
  // Reads statements up to a tag of one of these names, or to the end of the template.
  Body parse_body(Words ends) {
    const Level level(*this);
    Body body;
    while (now().kind != Kind::kEnd && !is_end(ends)) {
      if (now().kind == Kind::kText) {
        auto print = std::make_unique<Print>();
        print->expression = std::make_unique<Literal>(Value(tokens_[at_++].text));
        body.push_back(std::move(print));
      } else if (now().kind == Kind::kPrintBegin) {
        ++at_;
        auto print = std::make_unique<Print>();
        print->expression = parse_tuple(true);
        expect(Kind::kPrintEnd);
        body.push_back(std::move(print));
      } else {
        ++at_;
        body.push_back(parse_statement());
      }
    }
    return body;
  }
  // Reads the body of a tag, and the tag that ends it.
  Body parse_block(std::string_view end) {
    expect(Kind::kBlockEnd);
    Body body = parse_body({end});
    take_end(end);
    return body;
  }
  void take_end(std::string_view end) {
    if (now().kind != Kind::kBlockBegin) refuse(fmt::format("found {}, must be {{% {} %}}", found(), end));
    ++at_;
    expect_word(end);
    if (end == "endmacro" && now().kind == Kind::kName) ++at_;
    expect(Kind::kBlockEnd);
  }

  std::unique_ptr<const Statement> parse_statement() {
    const std::string tag = take_name();
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "with") return parse_with();
    if (tag == "macro") return parse_macro();
    if (tag == "filter") return parse_filter_block();
    if (tag == "generation") {
      auto made = std::make_unique<Generation>();
      made->body = parse_block("endgeneration");
      return made;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) refuse(fmt::format("{{% {} %}} is in no loop", tag));
      expect(Kind::kBlockEnd);
      return std::make_unique<Jump>(tag == "break" ? Flow::kBreak : Flow::kContinue);
    }
    if (tag.starts_with("end") || is_one_of(tag, {"elif", "else"}))
      refuse(fmt::format("{{% {} %}} ends nothing that is open there", printable(tag, 40)));
    fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know the tag {{% {} %}}", now().line,
         printable(tag, 40));
  }

  std::unique_ptr<const Statement> parse_if() {
    auto made = std::make_unique<If>();
    do {
      ExpressionPtr condition = parse_tuple(false);
      expect(Kind::kBlockEnd);
      Body body = parse_body({"elif", "else", "endif"});
      made->branches.emplace_back(std::move(condition), std::move(body));
    } while (take_branch("elif"));
    if (take_branch("else")) {
      expect(Kind::kBlockEnd);
      made->otherwise = parse_body({"endif"});
    }
    take_end("endif");
    return made;
  }
  // Takes the begin of a tag with that name.
  bool take_branch(std::string_view name) {
    if (!is_end({name})) return false;
    at_ += 2;
    return true;
  }

  std::unique_ptr<const Statement> parse_for() {
    auto made = std::make_unique<For>();
    made->target = parse_target(false);
    expect_word("in");
    made->sequence = parse_tuple(false);
    if (take_word("if")) made->condition = parse_expression();
    if (is_word("recursive"))
      fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know recursive loops", now().line);
    expect(Kind::kBlockEnd);
    ++loops_;
    made->body = parse_body({"else", "endfor"});
    --loops_;
    if (take_branch("else")) {
      expect(Kind::kBlockEnd);
      made->otherwise = parse_body({"endfor"});
    }
    take_end("endfor");
    return made;
  }

  Target parse_target(bool may_be_attribute) {
    Target target;
    const bool in_brackets = take_symbol("(");
    do {
      if (is_symbol(")") || is_word("in") || is_symbol("=")) break;  // behind a last comma
      target.names.push_back(take_name());
      if (may_be_attribute && target.names.size() == 1 && take_symbol(".")) {
        target.attribute = take_name();
        return target;
      }
    } while (take_symbol(","));
    if (in_brackets) expect_symbol(")");
    return target;
  }

  std::unique_ptr<const Statement> parse_set() {
    auto made = std::make_unique<Set>();
    made->target = parse_target(true);
    if (take_symbol("=")) {
      made->value = parse_tuple(true);
      expect(Kind::kBlockEnd);
    } else {
      made->body = parse_block("endset");
    }
    return made;
  }

  std::unique_ptr<const Statement> parse_with() {
    auto made = std::make_unique<With>();
    while (now().kind != Kind::kBlockEnd) {
      if (!made->values.empty()) expect_symbol(",");
      std::string name = take_name();
      expect_symbol("=");
      made->values.emplace_back(std::move(name), parse_expression());
    }
    made->body = parse_block("endwith");
    return made;
  }

  std::unique_ptr<const Statement> parse_macro() {
    auto made = std::make_unique<Macro>();
    made->name = take_name();
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!made->parameters.empty()) expect_symbol(",");
      std::string name = take_name();
      ExpressionPtr value = take_symbol("=") ? parse_expression() : nullptr;
      if (value == nullptr && !made->parameters.empty() && made->parameters.back().second != nullptr)
        refuse(fmt::format("the parameter {} follows one with a default, but has none", name));
      made->parameters.emplace_back(std::move(name), std::move(value));
    }
    expect_symbol(")");
    const int loops = std::exchange(loops_, 0);
    made->body = parse_block("endmacro");
    loops_ = loops;
    return made;
  }

  std::unique_ptr<const Statement> parse_filter_block() {
    auto made = std::make_unique<FilterBlock>();
    made->name = take_filter();
    if (is_symbol("(")) made->arguments = parse_arguments();
    made->body = parse_block("endfilter");
    return made;
  }
  std::string take_filter() {
    const size_t line = now().line;
    std::string name = take_name();
    while (take_symbol(".")) name += "." + take_name();
    if (find_filter(name) == nullptr)
      fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know the filter {}{}", line, printable(name, 40),
           did_you_mean(name, filter_names()));
    return name;
  }

  // Expressions, from those that bind least to those that bind most.
  // Returns an expression, or a list of those between commas. Behind `for ... in` a condition belongs to the
  // loop, so that expressions have none.
  ExpressionPtr parse_tuple(bool with_condition) {
    const auto parse_one = [&] { return with_condition ? parse_expression() : parse_or(); };
    ExpressionPtr first = parse_one();
    if (!is_symbol(",")) return first;
    auto list = std::make_unique<ListOf>();
    list->is_tuple = true;
    list->items.push_back(std::move(first));
    while (take_symbol(",")) {
      if (now().kind == Kind::kPrintEnd || now().kind == Kind::kBlockEnd || is_symbol(")")) break;
      list->items.push_back(parse_one());
    }
    return list;
  }

  ExpressionPtr parse_expression() {
    const Level level(*this);
    ExpressionPtr value = parse_or();
    while (take_word("if")) {
      auto made = std::make_unique<Conditional>();
      made->yes = std::move(value);
      made->condition = parse_or();
      if (take_word("else")) made->no = parse_expression();
      value = std::move(made);
    }
    return value;
  }

  ExpressionPtr logical(bool is_and, ExpressionPtr left, ExpressionPtr right) {
    auto made = std::make_unique<Logical>();
    made->is_and = is_and;
    made->left = std::move(left);
    made->right = std::move(right);
    return made;
  }
  ExpressionPtr parse_or() {
    ExpressionPtr left = parse_and();
    while (take_word("or")) left = logical(false, std::move(left), parse_and());
    return left;
  }
  ExpressionPtr parse_and() {
    ExpressionPtr left = parse_not();
    while (take_word("and")) left = logical(true, std::move(left), parse_not());
    return left;
  }
  ExpressionPtr unary(std::string symbol, ExpressionPtr input) {
    auto made = std::make_unique<Unary>();
    made->symbol = std::move(symbol);
    made->input = std::move(input);
    return made;
  }
  ExpressionPtr parse_not() {
    const Level level(*this);
    return take_word("not") ? unary("not", parse_not()) : parse_comparison();
  }

  ExpressionPtr parse_comparison() {
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
      made->others.emplace_back(symbol, parse_binary(0));
    }
    if (made->others.empty()) return first;
    made->first = std::move(first);
    return made;
  }

  ExpressionPtr parse_binary(size_t level) {
    static const std::vector<std::vector<std::string_view>> kLevels = {
        {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == kLevels.size()) return parse_unary(true);
    ExpressionPtr left = parse_binary(level + 1);
    while (now().kind == Kind::kSymbol && is_one_of(now().text, kLevels[level])) {
      auto made = std::make_unique<Binary>();
      made->symbol = tokens_[at_++].text;
      made->left = std::move(left);
      made->right = parse_binary(level + 1);
      left = std::move(made);
    }
    return left;
  }

  ExpressionPtr parse_unary(bool with_filters) {
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

  ExpressionPtr parse_primary() {
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
      parse_items("]", [&] { list->items.push_back(parse_expression()); });
      return list;
    }
    if (take_symbol("{")) {
      auto dict = std::make_unique<DictOf>();
      parse_items("}", [&] {
        ExpressionPtr key = parse_expression();
        expect_symbol(":");
        dict->items.emplace_back(std::move(key), parse_expression());
      });
      return dict;
    }
    refuse(fmt::format("found {}, must be a value", found()));
  }
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
  Value number(const Token& token) const {
    const char* const end = token.text.data() + token.text.size();
    if (token.kind == Kind::kReal) return std::stod(token.text);
    int64_t value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc())
      refuse(fmt::format("{} is too large", token.text));
    return value;
  }

  ExpressionPtr parse_postfix(ExpressionPtr value) {
    while (true) {
      if (take_symbol(".")) {
        if (now().kind == Kind::kInteger) {
          auto made = std::make_unique<ItemOf>();
          made->object = std::move(value);
          made->key = std::make_unique<Literal>(number(tokens_[at_++]));
          value = std::move(made);
          continue;
        }
        auto made = std::make_unique<AttributeOf>();
        made->object = std::move(value);
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
  ExpressionPtr parse_call(ExpressionPtr function) {
    auto made = std::make_unique<Call>();
    made->function = std::move(function);
    made->arguments = parse_arguments();
    return made;
  }
  ExpressionPtr parse_subscript(ExpressionPtr object) {
    const auto part = [&]() -> ExpressionPtr {
      return is_symbol(":") || is_symbol("]") ? nullptr : parse_expression();
    };
    ExpressionPtr first = part();
    if (!is_symbol(":")) {
      if (first == nullptr) refuse("found ], must be an index");
      auto made = std::make_unique<ItemOf>();
      made->object = std::move(object);
      made->key = std::move(first);
      expect_symbol("]");
      return made;
    }
    auto made = std::make_unique<SliceOf>();
    made->object = std::move(object);
    made->begin = std::move(first);
    expect_symbol(":");
    made->end = part();
    if (take_symbol(":")) made->step = part();
    expect_symbol("]");
    return made;
  }
  CallArguments parse_arguments() {
    const Level level(*this);
    CallArguments arguments;
    expect_symbol("(");
    parse_items(")", [&] {
      if (is_symbol("*") || is_symbol("**"))
        fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know {} in calls", now().line, now().text);
      if (now().kind == Kind::kName && tokens_[at_ + 1].kind == Kind::kSymbol &&
          tokens_[at_ + 1].text == "=") {
        std::string name = take_name();
        ++at_;
        arguments.named.emplace_back(std::move(name), parse_expression());
        return;
      }
      if (!arguments.named.empty()) refuse("an argument without a name follows one with a name");
      arguments.positional.push_back(parse_expression());
    });
    return arguments;
  }

  ExpressionPtr parse_filters(ExpressionPtr value) {
    while (true) {
      if (take_symbol("|")) {
        auto made = std::make_unique<Filtered>();
        made->name = take_filter();
        made->input = std::move(value);
        if (is_symbol("(")) made->arguments = parse_arguments();
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
  ExpressionPtr parse_test(ExpressionPtr input) {
    auto made = std::make_unique<Tested>();
    made->negated = take_word("not");
    const size_t line = now().line;
    made->name = take_name();
    while (take_symbol(".")) made->name += "." + take_name();
    if (find_test(made->name) == nullptr)
      fail(WEFT_UNIMPLEMENTED, "line {}: Weft does not know the test {}{}", line, printable(made->name, 40),
           did_you_mean(made->name, test_names()));
    made->input = std::move(input);
    if (is_symbol("(")) {
      made->arguments = parse_arguments();
    } else if ((now().kind == Kind::kName &&
                !is_one_of(now().text, {"else", "or", "and", "if", "is", "in", "not", "recursive"})) ||
               now().kind == Kind::kString || now().kind == Kind::kInteger || now().kind == Kind::kReal ||
               is_symbol("[") || is_symbol("{")) {
      made->arguments.positional.push_back(parse_postfix(parse_primary()));
    }
    return made;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int level_ = 0, loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) {
  return Parser(source).run();
}

}  // namespace weft::jinja
