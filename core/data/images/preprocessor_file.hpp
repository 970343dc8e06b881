// The values of a preprocessor_config.json, which Hugging Face's processors write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace weft::data {

class PreprocessorFile {
 public:
  // Throws NOT_FOUND; INVALID_ARGUMENT if the file is no object.
  explicit PreprocessorFile(const std::string& path);

  // Returns the value under a key and marks it as read; null if the key is absent or has null.
  const nlohmann::json* find(const char* key);
  // Change `value` if the key is there. Throw INVALID_ARGUMENT for another type.
  void read(const char* key, bool& value);
  void read(const char* key, double& value);
  void read(const char* key, int64_t& value, int64_t least, int64_t most);

  // Throws UNIMPLEMENTED unless each of `keys` that is there names one of `known`, if these are not empty.
  // Endings of `backends` do not count. `advice` ends the message.
  void check_type(const std::vector<const char*>& keys, const std::vector<std::string>& known,
                  const std::vector<std::string_view>& backends, std::string_view advice);
  // Throws UNIMPLEMENTED for a key that was not read, is neither null nor false, and is not in
  // `without_effect`; `what` and `advice` say what the key may change and what to do.
  void check_rest(const std::vector<std::string_view>& without_effect, std::string_view what,
                  std::string_view advice) const;
  // Throws INVALID_ARGUMENT that names the key, its value and what it must be.
  [[noreturn]] void refuse(const char* key, const std::string& wanted) const;

 private:
  const std::string path_;
  nlohmann::json values_;
  std::vector<std::string> read_;
};

}  // namespace weft::data
