#include "jinja/parser.hpp"

#include "jinja/expression_parser.hpp"

namespace weft::jinja {

namespace {

using Words = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Program run() {
    Body body = parse_body({});
    return {std::move(body), marks_generation_};
  }

 private:
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
        print->line = now().line;
        print->expression = std::make_unique<Literal>(Value(tokens_[at_++].text));
        body.push_back(std::move(print));
      } else if (now().kind == Kind::kPrintBegin) {
        auto print = std::make_unique<Print>();
        print->line = tokens_[at_++].line;
        print->expression = parse_tuple(true);
        expect(Kind::kPrintEnd);
        body.push_back(std::move(print));
      } else {
        const size_t line = tokens_[at_++].line;
        std::unique_ptr<Statement> made = parse_statement();
        made->line = line;
        body.push_back(std::move(made));
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

  std::unique_ptr<Statement> parse_statement() {
    const std::string tag = take_name();
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "with") return parse_with();
    if (tag == "macro") return parse_macro();
    if (tag == "filter") return parse_filter_block();
    if (tag == "generation") {
      auto made = std::make_unique<Generation>();
      marks_generation_ = true;
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

  std::unique_ptr<Statement> parse_if() {
    auto made = std::make_unique<If>();
    do {
      const size_t line = now().line;
      ExpressionPtr condition = parse_tuple(false);
      expect(Kind::kBlockEnd);
      Body body = parse_body({"elif", "else", "endif"});
      made->branches.push_back({line, std::move(condition), std::move(body)});
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

  std::unique_ptr<Statement> parse_for() {
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

  std::unique_ptr<Statement> parse_set() {
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

  std::unique_ptr<Statement> parse_with() {
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

  std::unique_ptr<Statement> parse_macro() {
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

  std::unique_ptr<Statement> parse_filter_block() {
    auto made = std::make_unique<FilterBlock>();
    made->filter = take_filter();
    ListOf arguments;  // whose height they count for
    if (is_symbol("(")) made->arguments = parse_arguments(arguments);
    made->body = parse_block("endfilter");
    return made;
  }

  int loops_ = 0;  // that are open
  bool marks_generation_ = false;
};

}  // namespace

Program parse(std::string_view source) {
  return Parser(source).run();
}

}  // namespace weft::jinja
