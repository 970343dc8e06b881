#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>

#include "base/text.hpp"
#include "tokenizer/regex_reader.hpp"
#include "tokenizer/regex_tree.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using Node = RegexNode;
using Kind = RegexStep::Kind;
using Greed = RegexStep::Greed;
constexpr size_t kLongestExpression = 16384;
// With kMostGroups, it bounds the depth of the tree.
constexpr int kMostRepeats = 8;
constexpr size_t kMostOfOneName = 100;

class Parser : private RegexReader {
 public:
  using RegexReader::RegexReader;

  RegexTree parse() {
    if (text_.size() > kLongestExpression)
      wrong(fmt::format("{} bytes, at most {} are possible", text_.size(), kLongestExpression));
    Node node = alternatives(false, 0);
    if (!at_end()) wrong("a \")\" that closes nothing");
    if (!names_.empty() && has_numbers_) wrong("a reference by number beside groups with names");
    std::sort(referenced_.begin(), referenced_.end());
    referenced_.erase(std::unique(referenced_.begin(), referenced_.end()), referenced_.end());
    if (!referenced_.empty() && referenced_.back() > num_groups_)
      wrong("a reference to a group that it does not have");
    return {std::move(node), std::move(sets_), std::move(referenced_)};
  }

 private:
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
      if (auto node = reference(ignore_case)) return *std::move(node);
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
        if (rest.starts_with("<=") || rest.starts_with("<!")) refuse("lookbehind");
        if (!skip("<") && !skip("'")) refuse(fmt::format("\"(?{}\"", printable(rest.substr(0, 2))));
        node.groups = {++num_groups_};
        std::vector<uint32_t>& groups = names_[group_name()];
        groups.push_back(num_groups_);
        if (groups.size() > kMostOfOneName)
          wrong(fmt::format("more than {} groups of one name", kMostOfOneName));
      }
    } else {
      node.groups = {++num_groups_};
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

  // Reads the name of a group behind "<" or "'", with what closes it.
  std::string group_name() {
    std::string name(RegexReader::name());
    size_t at = 0;
    const char32_t first = name.empty() ? U' ' : next_code_point(name, at);
    if (!is_word(first) || (first >= '0' && first <= '9'))
      wrong("a group whose name does not begin with a letter");
    return name;
  }

  // Reads what follows "\", if it is a reference to groups.
  std::optional<Node> reference(bool ignore_case) {
    Node node{Node::Kind::kReference};
    node.ignore_case = ignore_case;
    if (!at_end() && text_[at_] >= '1' && text_[at_] <= '9') {
      uint32_t number = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (error != std::errc() || (number > 9 && number > num_groups_)) return std::nullopt;  // it is octal
      at_ += static_cast<size_t>(end - begin);
      node.groups = {number};
      has_numbers_ = true;
    } else if (skip("k<") || skip("k'")) {
      node.groups = groups_of(name());
    } else {
      return std::nullopt;
    }
    referenced_.insert(referenced_.end(), node.groups.begin(), node.groups.end());
    return node;
  }
  // Returns the groups that "name", "2" or "-1" means, the last one first.
  std::vector<uint32_t> groups_of(std::string_view name) {
    const bool back = name.starts_with("-"), forward = name.starts_with("+");
    const std::string_view number = name.substr(back || forward ? 1 : 0);
    int value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc() && end == number.data() + number.size()) {
      const int count = static_cast<int>(num_groups_);
      const int group = back ? count + 1 - value : forward ? count + value : value;
      if (value > static_cast<int>(kLargestNumber) || group <= 0)
        wrong("a reference to a group that it does not have");
      has_numbers_ = true;
      return {static_cast<uint32_t>(group)};
    }
    const auto found = names_.find(std::string(name));
    if (found != names_.end()) return {found->second.rbegin(), found->second.rend()};
    if (name.find_first_of("+-") != std::string_view::npos) refuse("a reference with a level of recursion");
    wrong(fmt::format("a reference to \"{}\", which is the name of no group before it", printable(name, 40)));
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

  std::vector<CodePointSet> sets_;
  uint32_t num_groups_ = 0;
  std::map<std::string, std::vector<uint32_t>> names_;
  std::vector<uint32_t> referenced_;  // groups, as often as they are
  bool has_numbers_ = false;          // a reference by number
};

}  // namespace

RegexTree parse_regex(std::string_view expression, const std::string& source) {
  return Parser(expression, source).parse();
}

}  // namespace weft::tokenizer
