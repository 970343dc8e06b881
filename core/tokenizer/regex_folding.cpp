// Case in regular expressions, as Oniguruma has it. A text of a pattern matches what has the same folding,
// where a folding of two or three code points is looked for from left to right in the texts of one group:
// "(?i:ss)" matches "ß", and "(?i:s(s))" does not.
#include <algorithm>
#include <map>
#include <utility>

#include "tokenizer/case_folding.hpp"
#include "tokenizer/regex_tree.hpp"
#include "tokenizer/unicode.hpp"

namespace weft::tokenizer {

namespace {

using Node = RegexNode;
using Points = std::u32string_view;

bool are_equal_up_to_case(Points one, Points other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char32_t left, char32_t right) { return fold_case(left) == fold_case(right); });
}

class Folder {
 public:
  explicit Folder(std::vector<CodePointSet>& sets) : sets_(sets) {}

  void resolve(Node& node) {
    if (node.kind == Node::Kind::kText) {
      node = folded_text(node);
    } else if (node.kind == Node::Kind::kSet) {
      if (sets_[node.set].ignores_case()) node = with_long_folds(node);
    } else {
      if (node.kind == Node::Kind::kSequence) join_texts(node.children);
      for (Node& child : node.children) resolve(child);
    }
  }

 private:
  static void join_texts(std::vector<Node>& nodes) {
    std::vector<Node> joined;
    for (Node& node : nodes)
      if (node.kind == Node::Kind::kText && !joined.empty() && joined.back().kind == Node::Kind::kText &&
          joined.back().ignore_case == node.ignore_case)
        joined.back().text += node.text;
      else
        joined.push_back(std::move(node));
    nodes = std::move(joined);
  }

  Node folded_text(const Node& node) {
    Node all{Node::Kind::kSequence};
    for (Points left = node.text; !left.empty();)
      all.children.push_back(node.ignore_case ? next_folded(left) : set_of(take(left, 1)));
    return all.children.size() == 1 ? Node(std::move(all.children.front())) : all;
  }

  static Points take(Points& left, size_t size) {
    const Points taken = left.substr(0, size);
    left.remove_prefix(size);
    return taken;
  }

  // Takes the code points that are one folding.
  Node next_folded(Points& left) {
    for (const size_t size : {size_t{3}, size_t{2}}) {
      if (left.size() < size) continue;
      std::u32string singles;
      for (const LongFold& fold : long_folds())
        if (are_equal_up_to_case(fold.folded, left.substr(0, size))) singles += fold.point;
      if (!singles.empty()) return either(variants_of(take(left, size)), set_of(singles));
    }
    const char32_t point = take(left, 1).front();
    for (const LongFold& fold : long_folds())
      if (fold.point == point) return either(variant_of(point), variants_of(fold.folded));
    return variant_of(point);
  }

  // A class also matches what a member folds to; a negated one does not.
  Node with_long_folds(const Node& node) {
    if (sets_[node.set].is_negated()) return node;
    Node all{Node::Kind::kAlternatives};
    all.children.push_back(node);
    for (const size_t size : {size_t{2}, size_t{3}}) {
      std::map<std::u32string, std::u32string> firsts;  // by what follows them
      for (const LongFold& fold : long_folds())
        if (fold.folded.size() == size && sets_[node.set].contains(fold.point))
          firsts[fold.folded.substr(1)] += with_variants(fold.folded.front());
      for (const auto& [rest, first] : firsts) {
        Node sequence = variants_of(rest);
        sequence.children.insert(sequence.children.begin(), set_of(first));
        all.children.push_back(std::move(sequence));
      }
    }
    return all.children.size() == 1 ? node : all;
  }

  static std::u32string with_variants(char32_t point) {
    const Points variants = case_variants(point);
    return variants.empty() ? std::u32string(1, point) : std::u32string(variants);
  }
  Node variant_of(char32_t point) { return set_of(with_variants(point)); }
  Node variants_of(Points points) {
    Node all{Node::Kind::kSequence};
    for (const char32_t point : points) all.children.push_back(variant_of(point));
    return all;
  }
  static Node either(Node one, Node other) {
    Node both{Node::Kind::kAlternatives};
    both.children.push_back(std::move(one));
    both.children.push_back(std::move(other));
    return both;
  }
  Node set_of(Points points) {
    CodePointSet set;
    for (const char32_t point : points) set.add_range(point, point);
    set.close();
    Node node{Node::Kind::kSet};
    node.set = static_cast<uint32_t>(sets_.size());
    sets_.push_back(std::move(set));
    return node;
  }

  std::vector<CodePointSet>& sets_;
};

}  // namespace

void resolve_case(RegexTree& tree) {
  Folder(tree.sets).resolve(tree.root);
}

}  // namespace weft::tokenizer
