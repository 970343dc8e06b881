#include "tokenizer/json_part.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

using nlohmann::json;

JsonPart::JsonPart(const json& part, std::string_view what, const std::string& source)
    : part_(part), what_(what), source_(source) {
  if (!part.is_object())
    fail(WEFT_DATA_LOSS, "{}: {} is {}, must be an object", source, what, json_kind(part));
}

const json* JsonPart::find(const char* key) const {
  const auto found = part_.find(key);
  return found == part_.end() || found->is_null() ? nullptr : &*found;
}

void JsonPart::wrong(const char* key, std::string_view must_be) const {
  const json* value = find(key);
  fail(WEFT_DATA_LOSS, "{}: {}: \"{}\" is {}, must be {}", source_, what_, key,
       value ? printable(value->dump(-1, ' ', true, json::error_handler_t::replace), 80) : "missing",
       must_be);
}

void JsonPart::unknown(const char* key, std::string_view value) const {
  fail(WEFT_UNIMPLEMENTED, "{}: {}: Weft does not have \"{}\": {}", source_, what_, key,
       printable(value, 80));
}

const std::string& JsonPart::type() const {
  const json* value = find("type");
  if (!value || !value->is_string()) wrong("type", "a text");
  return value->get_ref<const std::string&>();
}

std::string JsonPart::rule() const {
  return fmt::format("{}: {} {}", source_, what_, printable(text("type", "without a type"), 40));
}

bool JsonPart::flag(const char* key, bool otherwise) const {
  const json* value = find(key);
  if (value && !value->is_boolean()) wrong(key, "true or false");
  return value ? value->get<bool>() : otherwise;
}

std::string JsonPart::text(const char* key) const {
  const json* value = find(key);
  if (!value || !value->is_string()) wrong(key, "a text");
  return value->get<std::string>();
}

std::string JsonPart::text(const char* key, std::string_view otherwise) const {
  return find(key) ? text(key) : std::string(otherwise);
}

int64_t JsonPart::integer(const char* key, int64_t otherwise) const {
  const json* value = find(key);
  return value ? integer_of(*value, key, source_) : otherwise;
}

const json& JsonPart::object(const char* key) const {
  const json* value = find(key);
  if (!value || !value->is_object()) wrong(key, "an object");
  return *value;
}

const json& JsonPart::list(const char* key) const {
  const json* value = find(key);
  if (!value || !value->is_array()) wrong(key, "a list");
  return *value;
}

}  // namespace weft::tokenizer
