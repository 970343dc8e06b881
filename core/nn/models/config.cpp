#include "weft/config.hpp"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace weft {

using Json = nlohmann::json;

struct Config::Values {
  Json object;
};

namespace {

constexpr size_t kLargestFile = 64 << 20;

const Json* find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

[[noreturn]] void missing(const Json& object, std::string_view key, const std::string& origin) {
  fail(WEFT_NOT_FOUND, "{}: no key \"{}\"{}", origin, key, did_you_mean(key, keys_of(object)));
}

[[noreturn]] void wrong(const Json& value, std::string_view key, const char* wanted,
                        const std::string& origin) {
  const std::string shown = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be {}", origin, key, printable(shown, 80), wanted);
}

int64_t as_integer(const Json& value, std::string_view key, const std::string& origin) {
  if (!value.is_number_integer()) wrong(value, key, "an integer", origin);
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value.is_number_unsigned() && value.get<uint64_t>() > kLargest) {
    wrong(value, key, "an integer of 64 bits", origin);
  }
  return value.get<int64_t>();
}

}  // namespace

Config::Config() : values_(std::make_shared<const Values>(Values{Json::object()})), origin_("no file") {}

Config Config::parse(std::string_view text, std::string origin) {
  Json object = parse_json(text, origin);
  if (!object.is_object()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: a model's configuration must be a JSON object, found {}", origin,
         json_kind(object));
  }
  Config config;
  config.values_ = std::make_shared<const Values>(Values{std::move(object)});
  config.origin_ = std::move(origin);
  return config;
}

Config Config::load(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(file, ignored)) {
    file /= "config.json";
    if (!fs::exists(file, ignored)) {
      fail(WEFT_NOT_FOUND,
           "{}: no config.json in this folder; give a Hugging Face model folder or a config.json", path);
    }
  }
  return parse(read_file(file, kLargestFile), file.string());
}

bool Config::has(std::string_view key) const {
  return find(values_->object, key) != nullptr;
}

int64_t Config::integer(std::string_view key) const {
  const Json* value = find(values_->object, key);
  if (!value) missing(values_->object, key, origin_);
  return as_integer(*value, key, origin_);
}

int64_t Config::integer(std::string_view key, int64_t otherwise) const {
  const Json* value = find(values_->object, key);
  return value ? as_integer(*value, key, origin_) : otherwise;
}

double Config::real(std::string_view key, double otherwise) const {
  const Json* value = find(values_->object, key);
  if (!value) return otherwise;
  if (!value->is_number()) wrong(*value, key, "a number", origin_);
  return value->get<double>();
}

bool Config::flag(std::string_view key, bool otherwise) const {
  const Json* value = find(values_->object, key);
  if (!value) return otherwise;
  if (!value->is_boolean()) wrong(*value, key, "true or false", origin_);
  return value->get<bool>();
}

std::string Config::text(std::string_view key, std::string_view otherwise) const {
  const Json* value = find(values_->object, key);
  if (!value) return std::string(otherwise);
  if (!value->is_string()) wrong(*value, key, "a text", origin_);
  return value->get<std::string>();
}

std::vector<std::string> Config::texts(std::string_view key) const {
  const Json* value = find(values_->object, key);
  if (!value) return {};
  if (!value->is_array()) wrong(*value, key, "an array of texts", origin_);
  std::vector<std::string> texts;
  for (const Json& entry : *value) {
    if (!entry.is_string()) wrong(*value, key, "an array of texts", origin_);
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

int64_t Config::entries(std::string_view key) const {
  const Json* value = find(values_->object, key);
  if (!value) return 0;
  if (!value->is_structured()) wrong(*value, key, "an object or an array", origin_);
  return static_cast<int64_t>(value->size());
}

namespace {

// Returns the class that AutoModel makes of a folder with code of its own, "modeling_x.Class"; or nothing.
std::string class_of_auto_map(const Json& object) {
  const Json* map = find(object, "auto_map");
  if (map == nullptr || !map->is_object() || !map->contains("AutoModel")) return "";
  const Json& name = map->at("AutoModel");
  return name.is_string() ? name.get<std::string>().substr(name.get<std::string>().rfind('.') + 1) : "";
}

bool has_head(const std::string& architecture) {
  return architecture.find("For") != std::string::npos || architecture.find("Head") != std::string::npos;
}

}  // namespace

std::string Config::architecture() const {
  std::vector<std::string> architectures = texts("architectures");
  const std::string whole = class_of_auto_map(values_->object);
  if (has_head(whole) && (architectures.empty() || !has_head(architectures.front()))) return whole;
  if (architectures.empty()) {
    fail(WEFT_NOT_FOUND,
         "{}: it names no model class (\"architectures\" is absent or empty); pass --architecture NAME",
         origin_);
  }
  return architectures.front();
}

Config Config::with(std::string_view key, std::string_view text_value) const {
  return with_json(key, Json(text_value).dump());
}

Config Config::with_json(std::string_view key, std::string_view value) const {
  Json object = values_->object;
  object[std::string(key)] = parse_json(value, fmt::format("{}: \"{}\"", origin_, key));
  Config changed;
  changed.values_ = std::make_shared<const Values>(Values{std::move(object)});
  changed.origin_ = origin_;
  return changed;
}

// Formats like json.dumps(..., indent=2, sort_keys=True) + "\n" of Python.
std::string Config::dump() const {
  return values_->object.dump(2, ' ', true) + "\n";
}

std::string Config::json(std::string_view key) const {
  const auto value = values_->object.find(key);
  return value == values_->object.end() ? "" : value->dump();
}

}  // namespace weft
