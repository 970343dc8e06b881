#include "tokenizer/added_tokens.hpp"

#include <algorithm>

#include "tokenizer/json_part.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

AddedToken read_added_token(const Json& value, bool special, const std::string& source) {
  AddedToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.special = special;
    token.normalized = !special;
    return token;
  }
  const JsonPart part(value, "an added token", source);
  token.content = part.text("content");
  token.special = part.flag("special", special);
  token.single_word = part.flag("single_word", false);
  token.left_strip = part.flag("lstrip", false);
  token.right_strip = part.flag("rstrip", false);
  token.normalized = part.flag("normalized", !token.special);
  token.in_text = part.flag("in_text", true);
  return token;
}

void AddedTokens::Tree::add(std::string_view content, size_t token) {
  uint32_t node = 0;
  begins_[static_cast<unsigned char>(content.front())] = true;
  for (const char byte : content) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    node = next;
  }
  if (!nodes_[node].token) nodes_[node].token = token;
}

uint32_t AddedTokens::Tree::child(uint32_t node, char byte) const {
  for (const auto& [label, next] : nodes_[node].children)
    if (label == byte) return next;
  return 0;
}

std::optional<std::pair<size_t, size_t>> AddedTokens::Tree::find(std::string_view text, size_t at,
                                                                 Work work) const {
  if (!begins_[static_cast<unsigned char>(text[at])]) return std::nullopt;
  std::optional<std::pair<size_t, size_t>> longest;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    work.step(1 + nodes_[node].children.size() / 8);
    node = child(node, text[i]);
    if (node == 0) break;
    if (nodes_[node].token) longest = {*nodes_[node].token, i + 1 - at};
  }
  return longest;
}

void AddedTokens::add(const AddedToken& token, const TokenTable& model) {
  if (token.content.empty() || tokens_.find(token.content)) return;
  const int64_t own = static_cast<int64_t>(model.count());
  const int64_t next = std::max(own, tokens_.size());
  const int64_t id = model.find(token.content).value_or(next);
  tokens_.add(token.content, id, "added tokens");
  if (token.special) special_.insert(token.content);
  list_.push_back({token, id});
}

void AddedTokens::close(const Normalizer* normalizer) {
  size_t bytes = 0;
  for (const auto& [token, id] : list_) bytes += token.content.size();
  Limits limits(bytes);
  for (size_t i = 0; i < list_.size(); ++i) {
    const AddedToken& token = list_[i].token;
    if (!token.in_text) continue;
    if (!token.normalized) {
      raw_.add(token.content, i);
      continue;
    }
    const std::string content = normalizer ? normalizer->normalize(token.content, limits) : token.content;
    limits.use_room(content.size());
    if (!content.empty()) normalized_.add(content, i);
  }
}

namespace {

bool word_ends(std::string_view text) {
  size_t at = text.size();
  return !text.empty() && is_word(previous_code_point(text, at));
}
bool word_begins(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word(next_code_point(text, at));
}

size_t without_space_before(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t at = end;
    if (!is_white_space(previous_code_point(text, at))) break;
    end = at;
  }
  return end;
}
size_t behind_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) break;
    begin = at;
  }
  return begin;
}

}  // namespace

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, Text kind, Work work) const {
  const Tree& tree = kind == Text::kRaw ? raw_ : normalized_;
  std::vector<Part> parts;
  size_t done = 0;
  size_t space_begin = 1, space_end = 0;  // the space behind an earlier token
  for (size_t at = 0; at < text.size();) {
    const auto found = tree.find(text, at, work);
    if (!found) {
      ++at;
      continue;
    }
    const auto& [token, id] = list_[found->first];
    size_t begin = at, end = at + found->second;
    at = end;
    if (token.single_word && (word_ends(text.substr(0, begin)) || word_begins(text.substr(end)))) continue;
    if (token.left_strip) begin = std::max(without_space_before(text, done, begin), done);
    if (token.right_strip) {
      // Tokens of spaces may follow each other in the same space.
      if (end < space_begin || end > space_end) {
        space_begin = end;
        space_end = behind_space(text, end);
      }
      end = space_end;
    }
    if (done < begin) parts.push_back({std::nullopt, done, begin});
    parts.push_back({id, begin, end});
    done = end;
  }
  if (done < text.size()) parts.push_back({std::nullopt, done, text.size()});
  return parts;
}

std::string AddedTokens::description() const {
  Json all = Json::array();
  for (const auto& [token, id] : list_)
    all.push_back(
        {token.content, id, token.single_word, token.left_strip, token.right_strip, token.normalized});
  return all.dump();
}

}  // namespace weft::tokenizer
