#include "jinja/strings.hpp"

#include <algorithm>

#include "base/search.hpp"
#include "jinja/characters.hpp"
#include "jinja/reader.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::jinja {

size_t whitespace_at(std::string_view text, size_t at) {
  if (!tokenizer::utf8_step(text.substr(at)).valid) return 0;
  size_t end = at;
  const char32_t point = tokenizer::next_code_point(text, end);
  return tokenizer::is_white_space(point) || (point >= 0x1C && point <= 0x1F) ? end - at : 0;
}

size_t find_first(std::string_view text, std::string_view part, size_t from) {
  const size_t found = find_part(text, part, from);
  Limits::count((std::min(found, text.size()) - std::min(from, text.size()) + part.size()) / 16);
  return found;
}

size_t find_last(std::string_view text, std::string_view part) {
  const std::string text_back(text.rbegin(), text.rend()), part_back(part.rbegin(), part.rend());
  Limits::count(text.size() / 16);
  const size_t found = find_first(text_back, part_back);
  return found == std::string::npos ? found : text.size() - found - part.size();
}

Text stripped(const Text& text, const Value* characters, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  const bool space = characters == nullptr || characters->is_none();
  if (!space && characters->text() == nullptr) refuse_type("strip()", *characters);
  const auto size_at = [&](size_t at) -> size_t {
    if (space) return whitespace_at(bytes, at);
    const size_t end = next_character(bytes, at);
    const std::string_view character = bytes.substr(at, end - at);
    Limits::count(characters->text()->size() / kBytesPerStep);
    return characters->text()->bytes().find(character) != std::string::npos ? end - at : 0;
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const size_t size = size_at(begin);
    if (size == 0) break;
    begin += size;
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && !begins_character(bytes[at])) --at;
    if (size_at(at) != end - at) break;
    end = at;
  }
  return text.part(begin, end - begin);
}

namespace {

// Changes characters of a text one by one; those outside of ASCII need tables that Weft does not have.
template <class Change>
Text changed(const char* what, const Text& text, const Change& change) {
  std::string made = text.bytes();
  for (size_t i = 0; i < made.size(); ++i) {
    const char c = text.bytes()[i];
    if (static_cast<unsigned char>(c) >= 0x80)
      fail(WEFT_UNIMPLEMENTED, "{} of \"{}\": Weft changes the case of ASCII alone", what,
           printable(text.bytes(), 40));
    made[i] = change(i, c);
  }
  return text.with_bytes(std::move(made));
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_letter(char c) {
  return lower(c) >= 'a' && lower(c) <= 'z';
}
List split_at_space(const Text& text, int64_t most) {
  List parts;
  const std::string_view bytes = text.bytes();
  size_t at = 0;
  const auto skip = [&] {
    for (size_t size; at < bytes.size() && (size = whitespace_at(bytes, at)) > 0; at += size) {
    }
  };
  skip();
  while (at < bytes.size()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(stripped(text.part(at), nullptr, false, true));
      break;
    }
    const size_t begin = at;
    while (at < bytes.size() && whitespace_at(bytes, at) == 0) at = next_character(bytes, at);
    parts.emplace_back(text.part(begin, at - begin));
    skip();
  }
  return parts;
}

}  // namespace

Text upper_case(const Text& text) {
  return changed("upper", text, [](size_t, char c) { return upper(c); });
}
Text lower_case(const Text& text) {
  return changed("lower", text, [](size_t, char c) { return lower(c); });
}
Text capitalized(const Text& text) {
  return changed("capitalize", text, [](size_t i, char c) { return i == 0 ? upper(c) : lower(c); });
}
Text title_case(const Text& text, bool filter) {
  const auto begins_word = [&](size_t i) {
    if (i == 0) return true;
    const char before = text.bytes()[i - 1];
    if (!filter) return !is_letter(before);
    return std::string_view("-({[<").find(before) != std::string_view::npos ||
           whitespace_at(text.bytes(), i - 1) > 0;
  };
  return changed("title", text, [&](size_t i, char c) { return begins_word(i) ? upper(c) : lower(c); });
}

Text replaced(const Text& text, const Text& old, const Text& by, int64_t count) {
  Text made;
  size_t at = 0;
  while (count != 0) {
    const size_t found = find_first(text.bytes(), old.bytes(), at);
    if (found == std::string::npos) break;
    made.append_part(text, at, found - at);
    made.append(by);
    at = found + old.size();
    if (count > 0) --count;
    if (!old.empty()) continue;
    if (at == text.size()) return made;  // between all characters
    const size_t end = next_character(text.bytes(), at);
    made.append_part(text, at, end - at);
    at = end;
  }
  made.append_part(text, at, text.size() - at);
  return made;
}

List split(const Text& text, const Arguments& arguments, bool from_right) {
  const Reader read("split()", arguments, 2);
  const Value* const given = read.find(0, "sep");
  const int64_t most = read.integer(1, "maxsplit", -1);
  if (given == nullptr || given->is_none()) {
    if (from_right && most >= 0)
      fail(WEFT_UNIMPLEMENTED, "Weft does not know rsplit() at space with maxsplit");
    return split_at_space(text, most);
  }
  std::string separator = read.text(0, "sep").bytes();
  if (separator.empty()) fail(WEFT_INVALID_ARGUMENT, "split() by an empty text");
  std::string bytes = text.bytes();
  if (from_right) {
    std::reverse(bytes.begin(), bytes.end());
    std::reverse(separator.begin(), separator.end());
  }
  List parts;
  const auto add = [&](size_t begin, size_t end) {
    parts.emplace_back(text.part(from_right ? text.size() - end : begin, end - begin));
  };
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = find_first(bytes, separator, begin);
    if (found == std::string::npos) break;
    add(begin, found);
    begin = found + separator.size();
  }
  add(begin, text.size());
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

List lines_of(const Text& text, bool keep_ends) {
  List lines;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.bytes().find_first_of("\n\r", at), text.size());
    const bool pair = text.bytes().compare(found, 2, "\r\n") == 0;
    const size_t next = std::min(found + (pair ? 2 : 1), text.size());
    lines.emplace_back(text.part(at, (keep_ends ? next : found) - at));
    at = next;
  }
  return lines;
}

bool has_at_end(const Text& text, const Value& given, bool begins) {
  const auto has = [&](const Value& part) {
    if (part.text() == nullptr) refuse_type(begins ? "startswith()" : "endswith()", part);
    const std::string& bytes = part.text()->bytes();
    Limits::count(1 + bytes.size() / kBytesPerStep);
    return begins ? text.bytes().starts_with(bytes) : text.bytes().ends_with(bytes);
  };
  if (given.list() == nullptr) return has(given);
  return std::any_of(given.list()->begin(), given.list()->end(), has);
}

Text characters_of(const Text& text, int64_t begin, int64_t end) {
  const size_t first = byte_of_character(text.bytes(), static_cast<size_t>(begin));
  const std::string_view rest = std::string_view(text.bytes()).substr(first);
  return text.part(first, byte_of_character(rest, static_cast<size_t>(std::max<int64_t>(end - begin, 0))));
}

Text joined(const Value& items, const Text& separator, bool as_text) {
  Text made;
  bool first = true;
  for (const Value& item : elements(items)) {
    if (!as_text && item.text() == nullptr) refuse_type("join()", item);
    if (!first) made.append(separator);
    made.append(to_text(item));
    first = false;
  }
  return made;
}

int64_t character_at(const Text& text, size_t byte) {
  return byte == std::string::npos
             ? -1
             : static_cast<int64_t>(num_characters(std::string_view(text.bytes()).substr(0, byte)));
}

int64_t count_of(const Text& text, const Text& part) {
  if (part.empty()) return static_cast<int64_t>(num_characters(text.bytes())) + 1;
  int64_t count = 0;
  for (size_t at = find_first(text.bytes(), part.bytes()); at != std::string::npos;
       at = find_first(text.bytes(), part.bytes(), at + part.size()))
    ++count;
  return count;
}
}  // namespace weft::jinja
