// Members of objects of tokenizer.json, with errors that name the file, the part and the key.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace weft::tokenizer {

class JsonPart {
 public:
  // `part` must outlive this. Throws DATA_LOSS if it is no object.
  JsonPart(const nlohmann::json& part, std::string_view what, const std::string& source);

  // Returns the value of "type". Throws DATA_LOSS if it is no text.
  const std::string& type() const;
  // Return a member; `otherwise` where it is missing or null, DATA_LOSS where it has another kind.
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, std::string_view otherwise) const;
  int64_t integer(const char* key, int64_t otherwise) const;
  // Return a member that must be there.
  std::string text(const char* key) const;
  const nlohmann::json& object(const char* key) const;
  const nlohmann::json& list(const char* key) const;
  const nlohmann::json* find(const char* key) const;  // null if it is missing or null

  // Throw DATA_LOSS for a wrong value, UNIMPLEMENTED for one that Weft does not have.
  [[noreturn]] void wrong(const char* key, std::string_view must_be) const;
  [[noreturn]] void unknown(const char* key, std::string_view value) const;
  const std::string& source() const { return source_; }
  // Returns the name of a rule in messages: the file, the part and its type.
  std::string rule() const;

 private:
  const nlohmann::json& part_;
  const std::string what_;
  const std::string& source_;
};

}  // namespace weft::tokenizer
