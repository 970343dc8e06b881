#include "jinja/functions.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"
#include "jinja/characters.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::jinja {

size_t whitespace_at(std::string_view text, size_t at) {
  if (!tokenizer::utf8_step(text.substr(at)).valid) return 0;
  size_t end = at;
  const char32_t point = tokenizer::next_code_point(text, end);
  return tokenizer::is_white_space(point) || (point >= 0x1C && point <= 0x1F) ? end - at : 0;
}

namespace {

[[noreturn]] void refuse_type(const char* what, const Value& value) {
  if (value.is_undefined())
    fail(WEFT_INVALID_ARGUMENT, "{} of \"{}\", which is undefined", what, value.undefined_name());
  fail(WEFT_INVALID_ARGUMENT, "{} of a value of the type {}", what, value.type());
}

// Reads the arguments of one function.
class Reader {
 public:
  Reader(const char* what, const Arguments& arguments, size_t most) : what_(what), arguments_(arguments) {
    if (arguments.positional.size() > most)
      fail(WEFT_INVALID_ARGUMENT, "{} takes {} arguments, got {}", what, most, arguments.positional.size());
  }
  const Value* find(size_t at, std::string_view name) const { return arguments_.find(at, name); }
  const Value& at(size_t place, std::string_view name) const {
    const Value* const found = find(place, name);
    if (found == nullptr) fail(WEFT_INVALID_ARGUMENT, "{} needs the argument {}", what_, name);
    return *found;
  }
  int64_t integer(size_t place, std::string_view name, std::optional<int64_t> otherwise = {}) const {
    const Value* const found = find(place, name);
    if (otherwise && (found == nullptr || found->is_none())) return *otherwise;
    const Value& value = at(place, name);
    if (!value.is_number() || value.is_float()) refuse_type(what_, value);
    return value.integer();
  }
  Text text(size_t place, std::string_view name) const {
    const Value& value = at(place, name);
    if (value.text() == nullptr) refuse_type(what_, value);
    return *value.text();
  }
  bool flag(size_t place, std::string_view name, bool otherwise = false) const {
    const Value* const found = find(place, name);
    return found == nullptr ? otherwise : found->is_true();
  }

 private:
  const char* const what_;
  const Arguments& arguments_;
};

// Strings.
Text stripped(const Text& text, const Value* characters, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  const bool space = characters == nullptr || characters->is_none();
  if (!space && characters->text() == nullptr) refuse_type("strip()", *characters);
  const auto size_at = [&](size_t at) -> size_t {
    if (space) return whitespace_at(bytes, at);
    const size_t end = next_character(bytes, at);
    const std::string_view character = bytes.substr(at, end - at);
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

// Changes characters of a text one by one; those outside of ASCII need tables that Weft does not have.
template <class Change>
Text changed(const char* what, const Text& text, const Change& change) {
  Text made;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    if (static_cast<unsigned char>(c) >= 0x80)
      fail(WEFT_UNIMPLEMENTED, "{} of \"{}\": Weft changes the case of ASCII alone", what,
           printable(text.bytes(), 40));
    made.append(std::string(1, change(i, c)), text.origin(i));
  }
  return made;
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
Text upper_case(const Text& text) {
  return changed("upper", text, [](size_t, char c) { return upper(c); });
}
Text lower_case(const Text& text) {
  return changed("lower", text, [](size_t, char c) { return lower(c); });
}
Text capitalized(const Text& text) {
  return changed("capitalize", text, [](size_t i, char c) { return i == 0 ? upper(c) : lower(c); });
}
// str.title() of Python, or the filter of Jinja, which begins words behind other characters.
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
    const size_t found = text.bytes().find(old.bytes(), at);
    if (found == std::string::npos) break;
    made.append(text.part(at, found - at));
    made.append(by);
    at = found + old.size();
    if (count > 0) --count;
    if (!old.empty()) continue;
    if (at == text.size()) return made;  // between all characters
    const size_t end = next_character(text.bytes(), at);
    made.append(text.part(at, end - at));
    at = end;
  }
  made.append(text.part(at));
  return made;
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

List split(const Text& text, const Arguments& arguments, bool from_right) {
  const Reader read("split()", arguments, 2);
  const Value* const given = read.find(0, "sep");
  const int64_t most = read.integer(1, "maxsplit", -1);
  if (given == nullptr || given->is_none()) {
    if (from_right && most >= 0)
      fail(WEFT_UNIMPLEMENTED, "Weft does not know rsplit() at space with maxsplit");
    return split_at_space(text, most);
  }
  const std::string separator = read.text(0, "sep").bytes();
  if (separator.empty()) fail(WEFT_INVALID_ARGUMENT, "split() by an empty text");
  List parts;
  size_t begin = 0, end = text.size();
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    if (from_right) {
      const size_t found =
          end < separator.size() ? std::string::npos : text.bytes().rfind(separator, end - separator.size());
      if (found == std::string::npos) break;
      parts.emplace_back(text.part(found + separator.size(), end - found - separator.size()));
      end = found;
    } else {
      const size_t found = text.bytes().find(separator, begin);
      if (found == std::string::npos) break;
      parts.emplace_back(text.part(begin, found - begin));
      begin = found + separator.size();
    }
  }
  parts.emplace_back(text.part(begin, end - begin));
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

// Returns whether the text begins, or ends, with one of the texts.
bool has_at_end(const Text& text, const Value& given, bool begins) {
  const auto has = [&](const Value& part) {
    if (part.text() == nullptr) refuse_type(begins ? "startswith()" : "endswith()", part);
    const std::string& bytes = part.text()->bytes();
    return begins ? text.bytes().starts_with(bytes) : text.bytes().ends_with(bytes);
  };
  if (given.list() == nullptr) return has(given);
  return std::any_of(given.list()->begin(), given.list()->end(), has);
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
  return byte == std::string::npos ? -1 : static_cast<int64_t>(num_characters(text.bytes().substr(0, byte)));
}

template <class Is>
bool all_characters(const Text& text, const Is& is) {
  return !text.empty() && std::all_of(text.bytes().begin(), text.bytes().end(), is);
}

int64_t count_of(const Text& text, const Text& part) {
  if (part.empty()) return static_cast<int64_t>(num_characters(text.bytes())) + 1;
  int64_t count = 0;
  for (size_t at = text.bytes().find(part.bytes()); at != std::string::npos;
       at = text.bytes().find(part.bytes(), at + part.size()))
    ++count;
  return count;
}

using TextMethod = Value (*)(const Text& text, const Arguments& arguments);
struct NamedTextMethod {
  std::string_view name;
  TextMethod method;
};
const NamedTextMethod kTextMethods[] = {
    {"strip",
     [](const Text& t, const Arguments& a) { return Value(stripped(t, a.find(0, "chars"), true, true)); }},
    {"lstrip",
     [](const Text& t, const Arguments& a) { return Value(stripped(t, a.find(0, "chars"), true, false)); }},
    {"rstrip",
     [](const Text& t, const Arguments& a) { return Value(stripped(t, a.find(0, "chars"), false, true)); }},
    {"split", [](const Text& t, const Arguments& a) { return Value(split(t, a, false)); }},
    {"rsplit", [](const Text& t, const Arguments& a) { return Value(split(t, a, true)); }},
    {"splitlines",
     [](const Text& t, const Arguments& a) {
       return Value(lines_of(t, Reader("splitlines()", a, 1).flag(0, "keepends")));
     }},
    {"startswith",
     [](const Text& t, const Arguments& a) {
       return Value(has_at_end(t, Reader("startswith()", a, 1).at(0, "prefix"), true));
     }},
    {"endswith",
     [](const Text& t, const Arguments& a) {
       return Value(has_at_end(t, Reader("endswith()", a, 1).at(0, "suffix"), false));
     }},
    {"replace",
     [](const Text& t, const Arguments& a) {
       const Reader read("replace()", a, 3);
       return Value(replaced(t, read.text(0, "old"), read.text(1, "new"), read.integer(2, "count", -1)));
     }},
    {"removeprefix",
     [](const Text& t, const Arguments& a) {
       const Text prefix = Reader("removeprefix()", a, 1).text(0, "prefix");
       return Value(t.bytes().starts_with(prefix.bytes()) ? t.part(prefix.size()) : t);
     }},
    {"removesuffix",
     [](const Text& t, const Arguments& a) {
       const Text suffix = Reader("removesuffix()", a, 1).text(0, "suffix");
       return Value(t.bytes().ends_with(suffix.bytes()) ? t.part(0, t.size() - suffix.size()) : t);
     }},
    {"upper", [](const Text& t, const Arguments&) { return Value(upper_case(t)); }},
    {"lower", [](const Text& t, const Arguments&) { return Value(lower_case(t)); }},
    {"title", [](const Text& t, const Arguments&) { return Value(title_case(t, false)); }},
    {"capitalize", [](const Text& t, const Arguments&) { return Value(capitalized(t)); }},
    {"join",
     [](const Text& t, const Arguments& a) {
       return Value(joined(Reader("join()", a, 1).at(0, "items"), t, false));
     }},
    {"find",
     [](const Text& t, const Arguments& a) {
       return Value(character_at(t, t.bytes().find(Reader("find()", a, 1).text(0, "text").bytes())));
     }},
    {"rfind",
     [](const Text& t, const Arguments& a) {
       return Value(character_at(t, t.bytes().rfind(Reader("rfind()", a, 1).text(0, "text").bytes())));
     }},
    {"count", [](const Text& t,
                 const Arguments& a) { return Value(count_of(t, Reader("count()", a, 1).text(0, "text"))); }},
    {"isdigit",
     [](const Text& t, const Arguments&) {
       return Value(all_characters(t, [](char c) { return c >= '0' && c <= '9'; }));
     }},
    {"isspace",
     [](const Text& t, const Arguments&) {
       return Value(!t.empty() && stripped(t, nullptr, true, false).empty());
     }},
};

List view() {
  List made;
  made.kind = ListKind::kView;
  return made;
}

Value items_of(const Dict& dict) {
  List items = view();
  for (const auto& [key, value] : dict.items()) {
    List pair = {key, value};
    pair.kind = ListKind::kTuple;
    items.emplace_back(std::move(pair));
  }
  return items;
}

std::optional<Value> dict_method(const Value& object, std::string_view name) {
  const auto bound = [&](Value (*method)(const Dict&, const Arguments&)) {
    return Value(Value::Function(
        [object, method](const Arguments& arguments) { return method(*object.dict(), arguments); }));
  };
  if (name == "items") return bound([](const Dict& dict, const Arguments&) { return items_of(dict); });
  if (name == "keys")
    return bound([](const Dict& dict, const Arguments&) {
      List keys = view();
      for (const auto& [key, value] : dict.items()) keys.push_back(key);
      return Value(keys);
    });
  if (name == "values")
    return bound([](const Dict& dict, const Arguments&) {
      List values = view();
      for (const auto& [key, value] : dict.items()) values.push_back(value);
      return Value(values);
    });
  if (name == "get")
    return bound([](const Dict& dict, const Arguments& arguments) {
      const Reader read("get()", arguments, 2);
      if (const Value* const found = dict.find(read.at(0, "key"))) return *found;
      const Value* const otherwise = read.find(1, "default");
      return otherwise != nullptr ? *otherwise : Value(Value::None());
    });
  for (const std::string_view changing : {"update", "pop", "popitem", "clear", "setdefault"})
    if (name == changing)
      fail(WEFT_INVALID_ARGUMENT, "{}() would change a dict, which templates may not", name);
  return std::nullopt;
}

std::optional<Value> list_method(const Value& object, std::string_view name) {
  if (name == "index" || name == "count")
    return Value(Value::Function([object, counts = name == "count"](const Arguments& arguments) {
      const Value item = Reader("index() or count()", arguments, 1).at(0, "item");
      const List& list = *object.list();
      const auto is_item = [&](const Value& other) { return equal(item, other); };
      if (counts) return Value(int64_t{std::count_if(list.begin(), list.end(), is_item)});
      const auto found = std::find_if(list.begin(), list.end(), is_item);
      if (found == list.end()) fail(WEFT_INVALID_ARGUMENT, "index() of an item that the list does not have");
      return Value(int64_t{found - list.begin()});
    }));
  for (const std::string_view changing :
       {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"})
    if (name == changing)
      fail(WEFT_INVALID_ARGUMENT, "{}() would change a list, which templates may not; write list + [item]",
           name);
  return std::nullopt;
}

}  // namespace

std::optional<Value> find_method(const Value& object, std::string_view name) {
  if (object.attributes() != nullptr) return std::nullopt;
  if (object.dict() != nullptr) return dict_method(object, name);
  if (object.list() != nullptr) return list_method(object, name);
  if (object.text() == nullptr) return std::nullopt;
  for (const auto& known : kTextMethods)
    if (known.name == name)
      return Value(Value::Function([object, method = known.method](const Arguments& arguments) {
        return method(*object.text(), arguments);
      }));
  static const std::vector<std::string> kOthers = {
      "casefold",    "center",     "encode",   "expandtabs", "format",       "format_map", "index",
      "isalnum",     "isalpha",    "isascii",  "isdecimal",  "isidentifier", "islower",    "isnumeric",
      "isprintable", "istitle",    "isupper",  "ljust",      "maketrans",    "partition",  "rindex",
      "rjust",       "rpartition", "swapcase", "translate",  "zfill"};
  if (std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end())
    fail(WEFT_UNIMPLEMENTED, "Weft does not know the method {}() of strings", name);
  return std::nullopt;
}

Value attribute_of(const Value& object, const std::string& name) {
  if (object.is_undefined())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is undefined, so it has no {}", object.undefined_name(), name);
  if (std::optional<Value> method = find_method(object, name)) return *method;
  if (const Dict* const dict = object.dict())
    if (const Value* const found = dict->find_name(name)) return *found;
  return Value::Undefined{name};
}

Value item_of(const Value& object, const Value& key) {
  if (object.is_undefined())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is undefined, so it has no item {}", object.undefined_name(),
         printable(to_text(key).bytes(), 40));
  if (object.list() != nullptr && object.list()->kind == ListKind::kView)
    return Value::Undefined{"an item of a dict view"};
  if (object.text() != nullptr || object.list() != nullptr) {
    if (!key.is_number() || key.is_float()) {
      if (key.text() != nullptr) return attribute_of(object, key.text()->bytes());
      return Value::Undefined{to_text(key).bytes()};
    }
    const List items = object.list() != nullptr ? List() : elements(object);
    const List& all = object.list() != nullptr ? *object.list() : items;
    const auto size = static_cast<int64_t>(all.size());
    const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index >= 0 && index < size) return all[static_cast<size_t>(index)];
    return Value::Undefined{fmt::format("item {}", key.integer())};
  }
  if (const Dict* const dict = object.dict())
    if (const Value* const found = dict->find(key)) return *found;
  if (key.text() != nullptr) return attribute_of(object, key.text()->bytes());
  return Value::Undefined{to_text(key).bytes()};
}

bool contains(const Value& container, const Value& item) {
  if (container.text() != nullptr) {
    if (item.text() == nullptr) refuse_type("in a text", item);
    return container.text()->bytes().find(item.text()->bytes()) != std::string::npos;
  }
  if (container.dict() != nullptr) return container.dict()->find(item) != nullptr;
  if (container.list() == nullptr && !container.is_undefined()) refuse_type("in", container);
  const List items = elements(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& other) { return equal(item, other); });
}

namespace {

// Filters.
const Text& text_for(const char* what, const Value& value) {
  if (value.text() == nullptr) refuse_type(what, value);
  return *value.text();
}

// Returns the value at a path of attributes, "function.name", or at an index.
Value at_path(const Value& value, const Value& path) {
  if (path.text() == nullptr) return item_of(value, path);
  Value found = value;
  for (const std::string& name : weft::split(path.text()->bytes(), '.')) {
    const bool is_index = name.find_first_not_of("0123456789") == std::string::npos;
    found = is_index ? item_of(found, Value(int64_t{std::stoll(name.substr(0, 9))}))
                     : item_of(found, Value(name));
  }
  return found;
}

Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() +
                             static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size())),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map(const Value& input, const Arguments& arguments) {
  List made;
  if (const Value* const path = arguments.find(SIZE_MAX, "attribute")) {
    const Value* const otherwise = arguments.find(SIZE_MAX, "default");
    for (const Value& item : elements(input)) {
      Value found = at_path(item, *path);
      made.push_back(found.is_undefined() && otherwise != nullptr ? *otherwise : found);
    }
    return made;
  }
  const std::string name = Reader("map", arguments, SIZE_MAX).text(0, "filter").bytes();
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail(WEFT_UNIMPLEMENTED, "Weft does not know the filter {}", printable(name, 40));
  for (const Value& item : elements(input)) made.push_back(filter(item, without_first(arguments, 1)));
  return made;
}

// select, reject, selectattr and rejectattr: keeps the items, or those attributes, that pass the test.
Value chosen(const Value& input, const Arguments& arguments, bool passing, bool by_attribute) {
  const size_t first = by_attribute ? 1 : 0;
  const Reader read(by_attribute ? "selectattr" : "select", arguments, SIZE_MAX);
  const bool tests = arguments.positional.size() > first;
  const std::string name = tests ? read.text(first, "test").bytes() : "";
  const Test test = tests ? find_test(name) : nullptr;
  if (tests && test == nullptr)
    fail(WEFT_UNIMPLEMENTED, "Weft does not know the test {}", printable(name, 40));
  List made;
  for (const Value& item : elements(input)) {
    const Value value = by_attribute ? at_path(item, read.at(0, "attribute")) : item;
    if ((tests ? test(value, without_first(arguments, first + 1)) : value.is_true()) == passing)
      made.push_back(item);
  }
  return made;
}

// Returns what sort, unique, min and max compare: without case, unless they are told otherwise.
Value comparable(const Value& item, const Value* attribute, bool with_case) {
  const Value value = attribute == nullptr || attribute->is_none() ? item : at_path(item, *attribute);
  return with_case || value.text() == nullptr ? value : Value(lower_case(*value.text()));
}

Value sorted(const Value& input, const Arguments& arguments) {
  const Reader read("sort", arguments, 3);
  const bool reverse = read.flag(0, "reverse"), with_case = read.flag(1, "case_sensitive");
  const Value* const attribute = read.find(2, "attribute");
  List items = elements(input);
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    const Value first = comparable(a, attribute, with_case), second = comparable(b, attribute, with_case);
    return reverse ? less(second, first) : less(first, second);
  });
  return items;
}

Value sorted_dict(const Value& input, const Arguments& arguments) {
  const Reader read("dictsort", arguments, 3);
  const bool with_case = read.flag(0, "case_sensitive"), reverse = read.flag(2, "reverse");
  const bool by_value = read.find(1, "by") != nullptr && read.text(1, "by").bytes() == "value";
  if (input.dict() == nullptr) refuse_type("dictsort", input);
  List items = elements(items_of(*input.dict()));
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    const size_t place = by_value ? 1 : 0;
    const Value first = comparable((*a.list())[place], nullptr, with_case),
                second = comparable((*b.list())[place], nullptr, with_case);
    return reverse ? less(second, first) : less(first, second);
  });
  return items;
}

Value unique(const Value& input, const Arguments& arguments) {
  const Reader read("unique", arguments, 2);
  List seen, made;
  for (const Value& item : elements(input)) {
    const Value value = comparable(item, read.find(1, "attribute"), read.flag(0, "case_sensitive"));
    if (contains(Value(seen), value)) continue;
    seen.push_back(value);
    made.push_back(item);
  }
  return made;
}

Value extreme(const Value& input, const Arguments& arguments, bool largest) {
  const Reader read(largest ? "max" : "min", arguments, 2);
  Value best;
  bool first = true;
  for (const Value& item : elements(input)) {
    const auto key = [&](const Value& of) {
      return comparable(of, read.find(1, "attribute"), read.flag(0, "case_sensitive"));
    };
    if (first || (largest ? less(key(best), key(item)) : less(key(item), key(best)))) best = item;
    first = false;
  }
  return best;
}

Value sum(const Value& input, const Arguments& arguments) {
  const Reader read("sum", arguments, 2);
  const Value* const attribute = read.find(0, "attribute");
  const Value* const start = read.find(1, "start");
  Value total = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& item : elements(input)) {
    const Value value = attribute == nullptr || attribute->is_none() ? item : at_path(item, *attribute);
    if (!value.is_number() || !total.is_number()) refuse_type("sum", value);
    total = value.is_float() || total.is_float() ? Value(total.real() + value.real())
                                                 : Value(total.integer() + value.integer());
  }
  return total;
}

Value indented(const Value& input, const Arguments& arguments) {
  const Reader read("indent", arguments, 3);
  const Value* const width = read.find(0, "width");
  const Text space =
      width != nullptr && width->text() != nullptr
          ? *width->text()
          : Text(std::string(static_cast<size_t>(std::clamp<int64_t>(read.integer(0, "width", 4), 0, 1000)),
                             ' '));
  const bool first = read.flag(1, "first"), blank = read.flag(2, "blank");
  Text made;
  size_t number = 0;
  Text source = text_for("indent", input);
  source.append("\n");  // so that the last line counts, however the text ends
  for (const Value& line : lines_of(source, false)) {
    if (number > 0) made.append("\n");
    if (number == 0 ? first : blank || !line.text()->empty()) made.append(space);
    made.append(*line.text());
    ++number;
  }
  return made;
}

Value json(const Value& input, const Arguments& arguments) {
  const Value* const indent = arguments.find(SIZE_MAX, "indent");
  const Value* const sort = arguments.find(SIZE_MAX, "sort_keys");
  for (const auto& [name, value] : arguments.named) {
    const bool ascii = name == "ensure_ascii" && !value.is_true(),
               plain = name == "separators" && value.is_none();
    if (name != "indent" && name != "sort_keys" && !ascii && !plain)
      fail(WEFT_UNIMPLEMENTED, "Weft does not know the argument {} of tojson", name);
  }
  if (!arguments.positional.empty())
    fail(WEFT_UNIMPLEMENTED, "Weft knows the arguments of tojson by name alone");
  std::optional<int64_t> spaces;
  if (indent != nullptr && !indent->is_none()) {
    if (!indent->is_integer() || indent->integer() < 0 || indent->integer() > 1000)
      refuse_type("the indent of tojson", *indent);
    spaces = indent->integer();
  }
  return to_json(input, spaces, sort != nullptr && sort->is_true());
}

Value to_integer(const Value& input, const Arguments& arguments) {
  const Reader read("int", arguments, 2);
  const Value* const given = read.find(0, "default");
  const Value otherwise = given != nullptr ? *given : Value(int64_t{0});
  if (input.is_number()) return input.integer();
  if (input.text() == nullptr) return otherwise;
  const std::string text(trim(input.text()->bytes()));
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  int64_t whole = 0;
  if (const auto end = std::from_chars(begin, text.data() + text.size(), whole);
      end.ec == std::errc() && end.ptr == text.data() + text.size())
    return whole;
  double real = 0;
  if (const auto end = std::from_chars(begin, text.data() + text.size(), real);
      end.ec == std::errc() && end.ptr == text.data() + text.size() && std::abs(real) < 9e18)
    return static_cast<int64_t>(real);
  return otherwise;
}

Value to_real(const Value& input, const Arguments& arguments) {
  const Value* const given = Reader("float", arguments, 1).find(0, "default");
  if (input.is_number()) return input.real();
  if (input.text() != nullptr) {
    const std::string text(trim(input.text()->bytes()));
    const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
    double real = 0;
    if (const auto end = std::from_chars(begin, text.data() + text.size(), real);
        end.ec == std::errc() && end.ptr == text.data() + text.size())
      return real;
  }
  return given != nullptr ? *given : Value(0.0);
}

Value rounded(const Value& input, const Arguments& arguments) {
  const Reader read("round", arguments, 2);
  if (!input.is_number()) refuse_type("round", input);
  const int64_t digits = read.integer(0, "precision", 0);
  const std::string method = read.find(1, "method") != nullptr ? read.text(1, "method").bytes() : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits)), scaled = input.real() * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  if (method != "common") fail(WEFT_INVALID_ARGUMENT, "round: the method is \"{}\"", printable(method, 40));
  return std::nearbyint(scaled) / scale;
}

Value first_of(const Value& input) {
  const List items = elements(input);
  return items.empty() ? Value(Value::Undefined{"the first item of nothing"}) : items.front();
}
Value last_of(const Value& input) {
  const List items = elements(input);
  return items.empty() ? Value(Value::Undefined{"the last item of nothing"}) : items.back();
}

Value reversed(const Value& input) {
  List items = elements(input);
  std::reverse(items.begin(), items.end());
  if (input.text() == nullptr) return items;
  return joined(Value(items), Text(), true);
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
const NamedFilter kFilters[] = {
    {"abs",
     [](const Value& v, const Arguments&) {
       if (!v.is_number()) refuse_type("abs", v);
       return v.is_float() ? Value(std::abs(v.real())) : Value(std::abs(v.integer()));
     }},
    {"capitalize", [](const Value& v, const Arguments&) { return Value(capitalized(to_text(v))); }},
    {"count", [](const Value& v, const Arguments&) { return Value(length(v)); }},
    {"d", [](const Value& v, const Arguments& a) { return find_filter("default")(v, a); }},
    {"default",
     [](const Value& v, const Arguments& a) {
       const Reader read("default", a, 2);
       const Value* const otherwise = read.find(0, "default_value");
       if (!v.is_undefined() && (v.is_true() || !read.flag(1, "boolean"))) return v;
       return otherwise != nullptr ? *otherwise : Value("");
     }},
    {"dictsort", sorted_dict},
    {"first", [](const Value& v, const Arguments&) { return first_of(v); }},
    {"float", to_real},
    {"indent", indented},
    {"int", to_integer},
    {"items",
     [](const Value& v, const Arguments&) {
       if (v.is_undefined()) return Value(List());
       if (v.dict() == nullptr) refuse_type("items", v);
       return items_of(*v.dict());
     }},
    {"join",
     [](const Value& v, const Arguments& a) {
       const Reader read("join", a, 2);
       const Value* const separator = read.find(0, "d");
       const Value* const attribute = read.find(1, "attribute");
       Value items = v;
       if (attribute != nullptr && !attribute->is_none()) {
         List found;
         for (const Value& item : elements(v)) found.push_back(at_path(item, *attribute));
         items = found;
       }
       return Value(joined(items, separator != nullptr ? to_text(*separator) : Text(), true));
     }},
    {"last", [](const Value& v, const Arguments&) { return last_of(v); }},
    {"length", [](const Value& v, const Arguments&) { return Value(length(v)); }},
    {"list", [](const Value& v, const Arguments&) { return Value(elements(v)); }},
    {"lower", [](const Value& v, const Arguments&) { return Value(lower_case(to_text(v))); }},
    {"map", map},
    {"max", [](const Value& v, const Arguments& a) { return extreme(v, a, true); }},
    {"min", [](const Value& v, const Arguments& a) { return extreme(v, a, false); }},
    {"reject", [](const Value& v, const Arguments& a) { return chosen(v, a, false, false); }},
    {"rejectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, false, true); }},
    {"replace",
     [](const Value& v, const Arguments& a) {
       const Reader read("replace", a, 3);
       return Value(replaced(to_text(v), to_text(read.at(0, "old")), to_text(read.at(1, "new")),
                             read.integer(2, "count", -1)));
     }},
    {"reverse", [](const Value& v, const Arguments&) { return reversed(v); }},
    {"round", rounded},
    {"safe", [](const Value& v, const Arguments&) { return Value(to_text(v)); }},
    {"select", [](const Value& v, const Arguments& a) { return chosen(v, a, true, false); }},
    {"selectattr", [](const Value& v, const Arguments& a) { return chosen(v, a, true, true); }},
    {"sort", sorted},
    {"string", [](const Value& v, const Arguments&) { return Value(to_text(v)); }},
    {"sum", sum},
    {"title", [](const Value& v, const Arguments&) { return Value(title_case(to_text(v), true)); }},
    {"tojson", json},
    {"trim", [](const Value& v,
                const Arguments& a) { return Value(stripped(to_text(v), a.find(0, "chars"), true, true)); }},
    {"unique", unique},
    {"upper", [](const Value& v, const Arguments&) { return Value(upper_case(to_text(v))); }},
};

// Tests.
// Returns value % by, as Python counts it.
double remainder(const char* what, const Value& value, const Value& by) {
  if (!value.is_number()) refuse_type(what, value);
  if (!by.is_number()) refuse_type(what, by);
  if (by.real() == 0) fail(WEFT_INVALID_ARGUMENT, "{} by zero", what);
  const double rest = std::fmod(value.real(), by.real());
  return rest != 0 && (rest < 0) != (by.real() < 0) ? rest + by.real() : rest;
}
const Value& other(const Arguments& arguments) {
  return Reader("the test", arguments, 1).at(0, "other");
}
bool is_same(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.list() != nullptr || (a.dict() != nullptr && a.attributes() == nullptr))
    return a.list() == b.list() && a.dict() == b.dict();
  return equal(a, b);
}

struct NamedTest {
  std::string_view name;
  Test test;
};
constexpr Test kEqual = [](const Value&v, const Arguments&a) { return equal(v, other(a)); },
               kNotEqual = [](const Value&v, const Arguments&a) { return !equal(v, other(a)); },
               kLess = [](const Value&v, const Arguments&a) { return less(v, other(a)); },
               kGreater = [](const Value&v, const Arguments&a) { return less(other(a), v); },
               kAtMost = [](const Value&v, const Arguments&a) { return !less(other(a), v); },
               kAtLeast = [](const Value&v, const Arguments&a) { return !less(v, other(a)); };
const NamedTest kTests[] = {
    {"!=", kNotEqual},
    {"<", kLess},
    {"<=", kAtMost},
    {"==", kEqual},
    {">", kGreater},
    {">=", kAtLeast},
    {"boolean", [](const Value& v, const Arguments&) { return v.is_bool(); }},
    {"callable", [](const Value& v, const Arguments&) { return v.function() != nullptr; }},
    {"defined", [](const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"divisibleby",
     [](const Value& v, const Arguments& a) { return remainder("divisibleby", v, other(a)) == 0; }},
    {"eq", kEqual},
    {"equalto", kEqual},
    {"even", [](const Value& v, const Arguments&) { return remainder("even", v, Value(int64_t{2})) == 0; }},
    {"false", [](const Value& v, const Arguments&) { return v.is_bool() && !v.is_true(); }},
    {"float", [](const Value& v, const Arguments&) { return v.is_float(); }},
    {"ge", kAtLeast},
    {"greaterthan", kGreater},
    {"gt", kGreater},
    {"in", [](const Value& v, const Arguments& a) { return contains(other(a), v); }},
    {"integer", [](const Value& v, const Arguments&) { return v.is_integer(); }},
    {"iterable",
     [](const Value& v, const Arguments&) {
       return v.text() != nullptr || v.list() != nullptr || v.is_undefined() ||
              (v.dict() != nullptr && v.attributes() == nullptr);
     }},
    {"le", kAtMost},
    {"lessthan", kLess},
    {"lt", kLess},
    {"mapping",
     [](const Value& v, const Arguments&) { return v.dict() != nullptr && v.attributes() == nullptr; }},
    {"ne", kNotEqual},
    {"none", [](const Value& v, const Arguments&) { return v.is_none(); }},
    {"number", [](const Value& v, const Arguments&) { return v.is_number(); }},
    {"odd", [](const Value& v, const Arguments&) { return remainder("odd", v, Value(int64_t{2})) == 1; }},
    {"sameas", [](const Value& v, const Arguments& a) { return is_same(v, other(a)); }},
    {"sequence",
     [](const Value& v, const Arguments&) {
       return v.text() != nullptr || (v.list() != nullptr && v.list()->kind != ListKind::kView) ||
              v.is_undefined() || (v.dict() != nullptr && v.attributes() == nullptr);
     }},
    {"string", [](const Value& v, const Arguments&) { return v.text() != nullptr; }},
    {"true", [](const Value& v, const Arguments&) { return v.is_bool() && v.is_true(); }},
    {"undefined", [](const Value& v, const Arguments&) { return v.is_undefined(); }},
};

Value range(const Arguments& arguments) {
  constexpr int64_t kMost = 100'000;
  const Reader read("range()", arguments, 3);
  const bool one = arguments.positional.size() == 1;
  const int64_t begin = one ? 0 : read.integer(0, "start"), end = read.integer(one ? 0 : 1, "stop"),
                step = read.integer(2, "step", 1);
  if (step == 0) fail(WEFT_INVALID_ARGUMENT, "the step of range() is 0");
  List numbers;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(numbers.size()) == kMost)
      fail(WEFT_INVALID_ARGUMENT, "range() has more than {} numbers", kMost);
    numbers.emplace_back(i);
  }
  return numbers;
}

Dict dict_of(const Arguments& arguments) {
  Dict made;
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional.front();
    if (first.dict() == nullptr || arguments.positional.size() > 1) refuse_type("dict()", first);
    made = *first.dict();
  }
  for (const auto& [name, value] : arguments.named) made.set(Value(name), value);
  return made;
}

template <class Table>
auto find_in(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& entry) { return entry.name == name; });
  return found == std::end(table) ? nullptr : &*found;
}
template <class Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

}  // namespace

Filter find_filter(std::string_view name) {
  const auto* const found = find_in(kFilters, name);
  return found == nullptr ? nullptr : found->filter;
}

Test find_test(std::string_view name) {
  const auto* const found = find_in(kTests, name);
  return found == nullptr ? nullptr : found->test;
}

std::vector<std::string> filter_names() {
  return names_in(kFilters);
}

std::vector<std::string> test_names() {
  return names_in(kTests);
}

Namespaces::~Namespaces() {
  for (const auto& attributes : made_) *attributes = Dict();
}

Value Namespaces::make(Dict attributes) {
  made_.push_back(std::make_shared<Dict>(std::move(attributes)));
  return Value::Namespace{made_.back()};
}

void set_globals(Scope& scope, Namespaces& namespaces) {
  scope.set("range", Value::Function(range));
  scope.set("dict", Value::Function([](const Arguments& arguments) { return Value(dict_of(arguments)); }));
  scope.set("namespace", Value::Function([&namespaces](const Arguments& arguments) {
              return namespaces.make(dict_of(arguments));
            }));
  scope.set("raise_exception", Value::Function([](const Arguments& arguments) -> Value {
              const Value* const message = arguments.find(0, "message");
              fail(WEFT_INVALID_ARGUMENT, "the chat template refuses it: {}",
                   message == nullptr ? "" : printable(to_text(*message).bytes(), 200));
            }));
}

}  // namespace weft::jinja
