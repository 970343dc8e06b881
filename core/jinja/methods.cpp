#include <algorithm>

#include "jinja/functions.hpp"
#include "jinja/reader.hpp"
#include "jinja/strings.hpp"

namespace weft::jinja {

namespace {

List view() {
  List made;
  made.kind = ListKind::kView;
  return made;
}

bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
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
       return Value(character_at(t, find_first(t.bytes(), Reader("find()", a, 1).text(0, "text").bytes())));
     }},
    {"rfind",
     [](const Text& t, const Arguments& a) {
       return Value(character_at(t, find_last(t.bytes(), Reader("rfind()", a, 1).text(0, "text").bytes())));
     }},
    {"count", [](const Text& t,
                 const Arguments& a) { return Value(count_of(t, Reader("count()", a, 1).text(0, "text"))); }},
    {"isdigit", [](const Text& t, const Arguments&) { return Value(is_digits(t.bytes())); }},
    {"isspace",
     [](const Text& t, const Arguments&) {
       return Value(!t.empty() && stripped(t, nullptr, true, false).empty());
     }},
};
std::optional<Value> dict_method(const Value& object, std::string_view name) {
  const auto bound = [&](Value (*method)(const Dict&, const Arguments&)) {
    return Value(Value::Function([object, method](const Arguments& arguments) {
                   return method(*object.dict(), arguments);
                 }),
                 object);
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
                   if (found == list.end())
                     fail(WEFT_INVALID_ARGUMENT, "index() of an item that the list does not have");
                   return Value(int64_t{found - list.begin()});
                 }),
                 object);
  for (const std::string_view changing :
       {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"})
    if (name == changing)
      fail(WEFT_INVALID_ARGUMENT, "{}() would change a list, which templates may not; write list + [item]",
           name);
  return std::nullopt;
}
}  // namespace

Value items_of(const Dict& dict) {
  List items = view();
  for (const auto& [key, value] : dict.items()) {
    List pair = {key, value};
    pair.kind = ListKind::kTuple;
    items.emplace_back(std::move(pair));
  }
  return items;
}

std::optional<Value> find_method(const Value& object, std::string_view name) {
  if (object.attributes() != nullptr) return std::nullopt;
  if (object.dict() != nullptr) return dict_method(object, name);
  if (object.list() != nullptr) return list_method(object, name);
  if (object.text() == nullptr) return std::nullopt;
  for (const auto& known : kTextMethods)
    if (known.name == name)
      return Value(Value::Function([object, method = known.method](const Arguments& arguments) {
                     Limits::count(object.text()->size() / kBytesPerStep);
                     return method(*object.text(), arguments);
                   }),
                   object);
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
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is undefined, so it has no {}", object.undefined_name(),
         printable(name, 40));
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
    const int64_t size = length(object);
    const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index >= 0 && index < size)
      return object.list() != nullptr ? (*object.list())[static_cast<size_t>(index)]
                                      : characters_of(*object.text(), index, index + 1);
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
    return find_first(container.text()->bytes(), item.text()->bytes()) != std::string::npos;
  }
  if (container.dict() != nullptr) return container.dict()->find(item) != nullptr;
  if (container.list() == nullptr && !container.is_undefined()) refuse_type("in", container);
  const List none;
  const List& items = container.list() != nullptr ? *container.list() : none;
  return std::any_of(items.begin(), items.end(), [&](const Value& other) { return equal(item, other); });
}
}  // namespace weft::jinja
