// The configuration of a model: Hugging Face's config.json, read by key with errors that name the key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Config {
 public:
  Config();  // no keys
  // Throws INVALID_ARGUMENT unless `text` is a JSON object; `origin` (a path) appears in errors.
  static Config parse(std::string_view text, std::string origin);
  // Reads a config.json, or the one in a folder.
  static Config load(const std::string& path);

  bool has(std::string_view key) const;  // false for null too
  // Without a default the key must be there. A value of another type is an error.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  double real(std::string_view key, double otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  std::vector<std::string> texts(std::string_view key) const;  // empty if absent
  // How many entries an object or array has; 0 if absent.
  int64_t entries(std::string_view key) const;

  // architectures[0], or an error that says to pass --architecture.
  std::string architecture() const;
  // A copy with one key changed, to a text or to any value given as JSON text.
  Config with(std::string_view key, std::string_view text_value) const;
  Config with_json(std::string_view key, std::string_view json_value) const;

  std::string dump() const;  // indented JSON, as Hugging Face writes it
  const std::string& origin() const { return origin_; }

  // The value behind a key as JSON text ("12", "\"gelu\"", "[1, 2]"), empty if absent.
  std::string json(std::string_view key) const;

 private:
  struct Values;
  std::shared_ptr<const Values> values_;
  std::string origin_;
};

}  // namespace weft
