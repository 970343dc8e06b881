// The configuration of a model: Hugging Face's config.json. Errors name the file and the key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// An immutable JSON object. A copy shares the values.
class Config {
 public:
  Config();  // without keys
  // Parses JSON text. `origin`, a path, appears in errors. Throws INVALID_ARGUMENT unless it is an object.
  static Config parse(std::string_view text, std::string origin);
  // Reads a config.json, or the one in a folder. Throws NOT_FOUND, INVALID_ARGUMENT.
  static Config load(const std::string& path);

  bool has(std::string_view key) const;  // false also for null
  // Return the value under a key, or `otherwise`; without it the key must exist. Throw INVALID_ARGUMENT for a
  // missing key and for a value of another type.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  double real(std::string_view key, double otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::vector<std::string> texts(std::string_view key) const;  // empty if absent
  // Returns the number of entries of an object or array; 0 if the key is absent.
  int64_t entries(std::string_view key) const;

  // Returns architectures[0]; the class of "auto_map"'s AutoModel, if that has a head and architectures[0]
  // has none, because it names a part of the model. Throws NOT_FOUND if there is none.
  std::string architecture() const;
  // Return a copy in which one key has this text, or the value of this JSON text.
  Config with(std::string_view key, std::string_view text_value) const;
  Config with_json(std::string_view key, std::string_view json_value) const;

  std::string dump() const;  // as indented JSON, like Hugging Face's files
  const std::string& origin() const { return origin_; }

  // Returns the value under a key as JSON text ("12", "\"gelu\"", "[1, 2]"); empty if it is absent.
  std::string json(std::string_view key) const;

 private:
  struct Values;
  std::shared_ptr<const Values> values_;
  std::string origin_;
};

}  // namespace weft
