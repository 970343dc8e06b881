#include "jinja/value.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "jinja/characters.hpp"

namespace weft::jinja {

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

Dict::Items::const_iterator Dict::place_of(const Value& key) const {
  if (const Text* const name = key.text()) return place_of_name(name->bytes());
  return std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return equal(item.first, key); });
}

Dict::Items::const_iterator Dict::place_of_name(std::string_view name) const {
  size_t compared = 0;  // bytes
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const auto& item) {
    const Text* const text = item.first.text();
    const bool may_be = text != nullptr && text->size() == name.size();
    compared += 8 + (may_be ? name.size() : 0);
    return may_be && text->bytes() == name;
  });
  Limits::count(compared / kBytesPerStep);
  return found;
}

const Value* Dict::find(const Value& key) const {
  const auto found = place_of(key);
  return found == items_.end() ? nullptr : &found->second;
}

const Value* Dict::find_name(std::string_view name) const {
  const auto found = place_of_name(name);
  return found == items_.end() ? nullptr : &found->second;
}

void Dict::set(const Value& key, Value value) {
  const auto found = place_of(key);
  if (found == items_.end())
    add(key, std::move(value));
  else
    items_[static_cast<size_t>(found - items_.begin())].second = std::move(value);
}

Value::Value(Undefined undefined) : value_(std::move(undefined)) {
  constexpr size_t kLongest = 80;
  std::string& name = std::get<Undefined>(value_).name;
  if (name.size() > kLongest) name = printable(name, kLongest);
}

Value::Value(Function method, const Value& of) : Value(std::move(method)) {
  set_depth(of.depth_);
}

Value::Value(List list) {
  for (const Value& item : list) set_depth(item.depth_);
  value_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict.items()) set_depth(std::max(key.depth_, item.depth_));
  value_ = std::make_shared<const Dict>(std::move(dict));
}

void Value::set_depth(size_t inside) {
  constexpr size_t kMost = 100;
  depth_ = std::max(depth_, inside + 1);
  if (depth_ > kMost)
    fail(WEFT_RESOURCE_EXHAUSTED, "more than {} lists and dicts are inside each other", kMost);
}

void Dict::add(Value key, Value value) {
  items_.emplace_back(std::move(key), std::move(value));
}

const Dict* Value::dict() const {
  if (const auto* space = std::get_if<Namespace>(&value_)) return space->attributes.get();
  return get<Dict>();
}

Dict* Value::attributes() const {
  const auto* space = std::get_if<Namespace>(&value_);
  return space == nullptr ? nullptr : space->attributes.get();
}

int64_t Value::integer() const {
  if (is_bool()) return std::get<bool>(value_) ? 1 : 0;
  return is_float() ? static_cast<int64_t>(std::get<double>(value_)) : std::get<int64_t>(value_);
}

double Value::real() const {
  return is_float() ? std::get<double>(value_) : static_cast<double>(integer());
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_float()) return real() != 0;
  if (is_number()) return integer() != 0;
  if (text() != nullptr) return !text()->empty();
  if (list() != nullptr) return !list()->empty();
  if (const Dict* const plain = get<Dict>()) return plain->size() > 0;
  return true;
}

std::string Value::type() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (text() != nullptr) return "str";
  if (list() != nullptr)
    return list()->kind == ListKind::kTuple  ? "tuple"
           : list()->kind == ListKind::kView ? "dict view"
                                             : "list";
  if (attributes() != nullptr) return "namespace";
  return dict() != nullptr ? "dict" : "function";
}

Value value_of(const nlohmann::ordered_json& json, Text::Origin origin) {
  if (json.is_string()) return Text(json.get<std::string>(), origin);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)
    fail(WEFT_INVALID_ARGUMENT, "the number {} is too large", json.dump());
  if (json.is_number()) return json.get<int64_t>();
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.push_back(value_of(item, origin));
    return list;
  }
  if (json.is_object()) {
    Dict dict;
    for (const auto& [key, item] : json.items()) dict.add(key, value_of(item, origin));
    return dict;
  }
  return Value::None();
}

bool equal(const Value& a, const Value& b) {
  Limits::count(1);
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.real() == b.real() : a.integer() == b.integer();
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() == b.text()->size()) Limits::count(a.text()->size() / kBytesPerStep);
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.list() != nullptr && b.list() != nullptr)
    return a.list()->kind == b.list()->kind &&
           std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(), equal);
  if (a.attributes() != nullptr || b.attributes() != nullptr) return a.attributes() == b.attributes();
  if (a.dict() != nullptr && b.dict() != nullptr) {
    const auto in_b = [&](const auto& item) {
      const Value* const found = b.dict()->find(item.first);
      return found != nullptr && equal(item.second, *found);
    };
    return a.dict()->size() == b.dict()->size() &&
           std::all_of(a.dict()->items().begin(), a.dict()->items().end(), in_b);
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(const Value& a, const Value& b) {
  Limits::count(1);
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? a.real() < b.real() : a.integer() < b.integer();
  if (a.text() != nullptr && b.text() != nullptr) {
    Limits::count(std::min(a.text()->size(), b.text()->size()) / kBytesPerStep);
    return a.text()->bytes() < b.text()->bytes();
  }
  if (a.list() != nullptr && b.list() != nullptr && a.list()->kind == b.list()->kind) {
    const auto [first, second] =
        std::mismatch(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(), equal);
    return second != b.list()->end() && (first == a.list()->end() || less(*first, *second));
  }
  fail(WEFT_INVALID_ARGUMENT, "{} and {} have no order", a.type(), b.type());
}

namespace {

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// How two ways of writing values differ.
struct Form {
  const char *none, *yes, *no;
  bool json;
};
constexpr Form kPython = {"None", "True", "False", false}, kJson = {"null", "true", "false", true};

class Writer {
 public:
  Writer(const Form& form, std::optional<int64_t> indent, bool sort_keys)
      : form_(form), indent_(indent), sort_keys_(sort_keys) {}

  void write(const Value& value) {
    Limits::count(1);
    if (value.is_none()) return text_.append(form_.none);
    if (value.is_undefined() && !form_.json) return text_.append("Undefined");
    if (value.is_bool()) return text_.append(value.integer() != 0 ? form_.yes : form_.no);
    if (value.is_integer()) return text_.append(std::to_string(value.integer()));
    if (value.is_float()) return text_.append(text_of(value.real()));
    if (value.text() != nullptr) return write_string(*value.text());
    if (value.list() != nullptr && value.list()->kind != ListKind::kView) return write_list(*value.list());
    if (value.dict() != nullptr && value.attributes() == nullptr) return write_dict(*value.dict());
    fail(WEFT_INVALID_ARGUMENT, "a value of the type {} cannot be written{}", value.type(),
         form_.json ? " as JSON" : "");
  }
  Text take() { return std::move(text_); }

 private:
  void write_string(const Text& text) {
    // Python prefers single quotes.
    const bool has_single = text.bytes().find('\'') != std::string::npos,
               has_double = text.bytes().find('"') != std::string::npos;
    const char quote = form_.json || (has_single && !has_double) ? '"' : '\'';
    text_.append(std::string_view(&quote, 1));
    size_t done = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (is_plain(text.bytes()[i], quote)) continue;
      text_.append_part(text, done, i - done);
      text_.append(escaped(text.bytes()[i], quote), text.origin(i));
      done = i + 1;
    }
    text_.append_part(text, done, text.size() - done);
    text_.append(std::string_view(&quote, 1));
  }
  static bool is_plain(char c, char quote) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '\\' && c != quote && c != 0x7F;
  }
  std::string escaped(char c, char quote) const {
    if (c == '\\' || c == quote) return {'\\', c};
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (form_.json && c == '\b') return "\\b";
    if (form_.json && c == '\f') return "\\f";
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || (!form_.json && byte == 0x7F))
      return form_.json ? fmt::format("\\u{:04x}", byte) : fmt::format("\\x{:02x}", byte);
    return {c};
  }
  void begin_item(bool first) {
    if (!first) text_.append(indent_ ? "," : ", ");
    if (indent_) new_line();
  }
  void new_line() {
    text_.append("\n");
    text_.append(std::string(static_cast<size_t>(*indent_ * depth_), ' '));
  }
  void close(bool empty, const char* bracket) {
    --depth_;
    if (indent_ && !empty) new_line();
    text_.append(bracket);
  }
  void write_list(const List& list) {
    const bool tuple = !form_.json && list.kind == ListKind::kTuple;
    text_.append(tuple ? "(" : "[");
    ++depth_;
    for (size_t i = 0; i < list.size(); ++i) {
      begin_item(i == 0);
      write(list[i]);
    }
    close(list.empty(), !tuple ? "]" : list.size() == 1 ? ",)" : ")");
  }
  void write_key(const Value& key) {
    if (!form_.json || key.text() != nullptr) return write(key);
    text_.append("\"");
    write(key);
    text_.append("\"");
  }
  void write_dict(const Dict& dict) {
    Dict::Items sorted;
    if (sort_keys_) {
      sorted = dict.items();
      std::stable_sort(sorted.begin(), sorted.end(),
                       [](const auto& a, const auto& b) { return less(a.first, b.first); });
    }
    const Dict::Items& items = sort_keys_ ? sorted : dict.items();
    text_.append("{");
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      begin_item(i == 0);
      write_key(items[i].first);
      text_.append(": ");
      write(items[i].second);
    }
    close(items.empty(), "}");
  }

  const Form& form_;
  const std::optional<int64_t> indent_;
  const bool sort_keys_;
  int64_t depth_ = 0;
  Text text_;
};

}  // namespace

Text to_text(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.text() != nullptr) return *value.text();
  Writer writer(kPython, {}, false);
  writer.write(value);
  return writer.take();
}

Text to_json(const Value& value, std::optional<int64_t> indent, bool sort_keys) {
  Writer writer(kJson, indent, sort_keys);
  writer.write(value);
  return writer.take();
}

List elements(const Value& value) {
  if (value.is_undefined()) return {};
  List made;
  if (value.list() != nullptr) {
    made = *value.list();
    made.kind = ListKind::kList;
    return made;
  }
  if (const Text* const text = value.text()) {
    Limits::count(text->size() / kBytesPerStep);
    for (size_t at = 0; at < text->size();) {
      const size_t end = next_character(text->bytes(), at);
      made.emplace_back(text->part(at, end - at));
      at = end;
    }
    return made;
  }
  if (value.dict() == nullptr || value.attributes() != nullptr)
    fail(WEFT_INVALID_ARGUMENT, "a value of the type {} has no elements", value.type());
  for (const auto& [key, item] : value.dict()->items()) made.push_back(key);
  return made;
}

int64_t length(const Value& value) {
  if (const Text* const text = value.text()) {
    Limits::count(text->size() / kBytesPerStep);
    return static_cast<int64_t>(num_characters(text->bytes()));
  }
  if (value.list() != nullptr) return static_cast<int64_t>(value.list()->size());
  if (value.dict() != nullptr && value.attributes() == nullptr)
    return static_cast<int64_t>(value.dict()->size());
  if (value.is_undefined()) return 0;
  fail(WEFT_INVALID_ARGUMENT, "a value of the type {} has no length", value.type());
}

}  // namespace weft::jinja
