#include <fmt/format.h>

#include <iterator>

#include "base/text.hpp"
#include "tokenizer/regex_tree.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using Node = RegexNode;
using Kind = RegexStep::Kind;
using Greed = RegexStep::Greed;
constexpr uint32_t kMostRepetitions = 1000;
constexpr size_t kLongestExpression = 16384;
// Together they bound the depth of the tree.
constexpr int kMostGroups = 50, kMostRepeats = 8;

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  RegexTree parse() {
    if (text_.size() > kLongestExpression)
      wrong(fmt::format("{} bytes, at most {} are possible", text_.size(), kLongestExpression));
    Node node = alternatives(false, 0);
    if (!at_end()) wrong("a \")\" that closes nothing");
    return {std::move(node), std::move(sets_)};
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(WEFT_UNIMPLEMENTED, "{}: the regular expression \"{}\" uses {}, which Weft does not have", source_,
         printable(text_), what);
  }
  [[noreturn]] void wrong(std::string_view what) const {
    fail(WEFT_DATA_LOSS, "{}: the regular expression \"{}\" has {}", source_, printable(text_), what);
  }
  bool at_end() const { return at_ == text_.size(); }
  bool skip(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  char32_t next() {
    if (at_end()) wrong("an end where more must follow");
    return next_code_point(text_, at_);
  }

  Node alternatives(bool ignore_case, int depth) {
    if (depth > kMostGroups) wrong(fmt::format("groups in groups, more than {} deep", kMostGroups));
    Node all{Node::Kind::kAlternatives};
    do {
      Node one{Node::Kind::kSequence};
      while (!at_end() && text_[at_] != '|' && text_[at_] != ')') {
        const bool ignore = skip("(?i)");
        if (ignore || skip("(?-i)")) {  // a group to the end of this one, with its alternatives
          Node rest{Node::Kind::kGroup};
          rest.children.push_back(alternatives(ignore, depth + 1));
          one.children.push_back(std::move(rest));
          break;
        }
        Node item = atom(ignore_case, depth);
        for (int repeats = 0; repeat(item);)
          if (++repeats > kMostRepeats)
            wrong(fmt::format("repetitions of repetitions, more than {} deep", kMostRepeats));
        append(std::move(item), one.children);
      }
      all.children.push_back(std::move(one));
    } while (skip("|"));
    return all.children.size() == 1 ? std::move(all.children.front()) : std::move(all);
  }

  // Joins what Oniguruma joins, for a folding of several code points does not go over the other borders.
  static void append(Node item, std::vector<Node>& list) {
    if (item.kind == Node::Kind::kText && item.is_open && !list.empty() && list.back().is_open) {
      list.back().text += item.text;
    } else if (item.kind == Node::Kind::kSequence && item.children.size() > 1 && !list.empty()) {
      std::move(item.children.begin(), item.children.end(), std::back_inserter(list));
      list.back().is_open = false;
    } else {
      list.push_back(std::move(item));
    }
  }

  Node atom(bool ignore_case, int depth) {
    if (skip("(")) return group(ignore_case, depth);
    if (skip("[")) {
      CodePointSet set = bracket(depth);
      if (ignore_case) set.ignore_case();
      return set_node(std::move(set));
    }
    if (skip("^")) return place(Kind::kLineBegin);
    if (skip("$")) return place(Kind::kLineEnd);
    CodePointSet set;
    if (skip(".")) {
      set.add_range('\n', '\n');
      set.negate();
      return set_node(std::move(set));
    }
    if (skip("\\")) {
      if (skip("A")) return place(Kind::kTextBegin);
      if (skip("z")) return place(Kind::kTextEnd);
      if (skip("b")) return place(Kind::kWordEdge);
      if (skip("B")) return place(Kind::kWordEdge, true);
      const size_t before = at_;
      const auto point = escape(set);
      // Case is nothing to a class outside of brackets.
      return point ? text_node(*point, ignore_case, text_[before] == static_cast<char>(*point))
                   : set_node(std::move(set));
    }
    const char32_t point = next();
    if (point == '*' || point == '+' || point == '?') wrong("a repetition of nothing");
    return text_node(point, ignore_case, true);
  }

  static Node text_node(char32_t point, bool ignore_case, bool is_open) {
    Node node{Node::Kind::kText};
    node.text = point;
    node.ignore_case = ignore_case;
    node.is_open = is_open;
    return node;
  }
  Node set_node(CodePointSet set) {
    Node node{Node::Kind::kSet};
    set.close();
    node.set = static_cast<uint32_t>(sets_.size());
    sets_.push_back(std::move(set));
    return node;
  }
  static Node place(Kind kind, bool negated = false) {
    Node node{Node::Kind::kPlace};
    node.place = kind;
    node.negated = negated;
    return node;
  }

  // Reads what follows "(".
  Node group(bool ignore_case, int depth) {
    Node node{Node::Kind::kGroup};
    bool plain = false;
    if (skip("?")) {
      if (skip("=") || skip("!")) {
        node.kind = Node::Kind::kLook;
        node.negated = text_[at_ - 1] == '!';
      } else if (skip(">")) {
        node.kind = Node::Kind::kAtomic;
      } else if (skip("i:")) {
        ignore_case = true;
      } else if (skip("-i:")) {
        ignore_case = false;
      } else if (skip(":")) {
        plain = true;
      } else {
        const std::string_view rest = text_.substr(at_);
        const bool behind = rest.starts_with("<=") || rest.starts_with("<!");
        refuse(behind ? "lookbehind" : fmt::format("\"(?{}\"", printable(rest.substr(0, 2))));
      }
    }
    Node body = alternatives(ignore_case, depth + 1);
    if (!skip(")")) wrong("a group without \")\"");
    if (plain) return without_group(std::move(body));
    node.children.push_back(std::move(body));
    return node;
  }
  static Node without_group(Node body) {
    if (body.kind != Node::Kind::kSequence || body.children.size() != 1) return body;
    Node only = std::move(body.children.front());
    only.is_open = false;
    if (only.kind == Node::Kind::kText || only.kind == Node::Kind::kSequence) return only;
    body.children.front() = std::move(only);
    return body;
  }

  // Reads what follows "[", with the closing "]".
  CodePointSet bracket(int depth) {
    if (depth > kMostGroups) wrong(fmt::format("classes in classes, more than {} deep", kMostGroups));
    CodePointSet set;
    const bool negated = skip("^");
    if (skip("]")) wrong("an empty class");
    while (!skip("]")) {
      if (skip("[:")) refuse("a bracket of POSIX ([:...:])");
      if (skip("&&")) refuse("an intersection of classes (&&)");
      if (skip("[")) {
        set.add(bracket(depth + 1));
        continue;
      }
      const std::optional<char32_t> first = skip("\\") ? escape(set) : std::optional(next());
      if (!first) continue;
      const bool is_range = text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]");
      if (!is_range) {
        set.add_range(*first, *first);
        continue;
      }
      ++at_;
      if (text_.substr(at_).starts_with("[")) refuse("a range of classes");
      const std::optional<char32_t> last = skip("\\") ? escape(set) : std::optional(next());
      if (!last || *last < *first) wrong("a range that ends before it begins");
      set.add_range(*first, *last);
    }
    if (negated) set.negate();
    return set;
  }

  // Reads what follows "\": returns the code point that it means, or adds the class that it means to `set`.
  std::optional<char32_t> escape(CodePointSet& set) {
    const char32_t letter = next();
    switch (letter) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case 'x':
      case 'u':
        return number(letter);
      case 's':
      case 'S':
        set.add_white_space(letter == 'S');
        return std::nullopt;
      case 'w':
      case 'W':
        set.add_word(letter == 'W');
        return std::nullopt;
      case 'd':
      case 'D':
        set.add_categories(category_bit(Category::kNd), letter == 'D');
        return std::nullopt;
      case 'p':
      case 'P':
        property(letter == 'P', set);
        return std::nullopt;
      default:
        break;
    }
    if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z')
      refuse(fmt::format("\"\\{}\"", static_cast<char>(letter)));
    if (letter >= '0' && letter <= '9') refuse("a reference to a group or an octal number");
    return letter;
  }

  char32_t number(char32_t letter) {
    const bool braced = letter == 'x' && skip("{");
    const size_t most = braced ? 8 : letter == 'x' ? 2 : 4;
    char32_t value = 0;
    size_t digits = 0;
    for (; digits < most && !at_end(); ++digits, ++at_) {
      const char digit = text_[at_];
      const char low = static_cast<char>(digit | 0x20);
      if (digit >= '0' && digit <= '9')
        value = value * 16 + static_cast<char32_t>(digit - '0');
      else if (low >= 'a' && low <= 'f')
        value = value * 16 + static_cast<char32_t>(low - 'a' + 10);
      else
        break;
    }
    if (digits == 0 || value > 0x10FFFF || (braced && !skip("}"))) wrong("a wrong number of a code point");
    return value;
  }

  void property(bool negated, CodePointSet& set) {
    const size_t end = text_.find('}', at_);
    if (!skip("{") || end == std::string_view::npos) wrong("a \"\\p\" without {...}");
    if (skip("^")) negated = !negated;
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    const uint32_t categories = categories_of(name);
    if (categories == 0) refuse(fmt::format("the property \"{}\"", printable(name, 40)));
    set.add_categories(categories, negated);
  }

  // Reads a repetition of `item`, if one follows.
  bool repeat(Node& item) {
    uint32_t least = 0, most = kUnlimited;
    bool interval = false;
    if (skip("+"))
      least = 1;
    else if (skip("?"))
      most = 1;
    else if (!skip("*")) {
      interval = read_interval(least, most);
      if (!interval) return false;
    }
    if (item.kind == Node::Kind::kPlace || item.kind == Node::Kind::kLook) refuse("a repetition of a place");
    Greed greed = Greed::kGreedy;
    if (skip("?"))
      greed = Greed::kLazy;
    else if (!interval && skip("+"))
      greed = Greed::kPossessive;
    if (interval && greed == Greed::kLazy && least == most) refuse("\"{n}?\"");
    if (interval && least == 1 && most == 1) return true;
    Node node{Node::Kind::kRepeat};
    node.least = least;
    node.most = most;
    node.greed = greed;
    node.children.push_back(std::move(item));
    item = std::move(node);
    return true;
  }

  // Reads {n}, {n,}, {,m} or {n,m}; other braces are plain text.
  bool read_interval(uint32_t& least, uint32_t& most) {
    const size_t before = at_;
    if (!skip("{")) return false;
    const auto first = digits();
    const bool comma = skip(",");
    const auto second = comma ? digits() : first;
    if ((!first && !second) || !skip("}")) {
      at_ = before;
      return false;
    }
    least = first.value_or(0);
    most = second.value_or(kUnlimited);
    if (least > most) wrong("an interval that ends before it begins");
    return true;
  }
  std::optional<uint32_t> digits() {
    std::optional<uint32_t> value;
    while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value.value_or(0) * 10 + static_cast<uint32_t>(text_[at_++] - '0');
      if (*value > kMostRepetitions) wrong("an interval above 1000");
    }
    return value;
  }

  const std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  std::vector<CodePointSet> sets_;
};

}  // namespace

RegexTree parse_regex(std::string_view expression, const std::string& source) {
  return Parser(expression, source).parse();
}

}  // namespace weft::tokenizer
