#include "loader/shared_checks.hpp"

#include <filesystem>

namespace weft::data {

void check_is_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::regular) return;
  const std::string shown = path.empty() ? "\"\"" : printable(path);
  if (status.type() == fs::file_type::not_found) fail(WEFT_NOT_FOUND, "{}: no such data file", shown);
  if (status.type() == fs::file_type::none) fail(WEFT_PERMISSION_DENIED, "{}: {}", shown, error.message());
  fail(WEFT_INVALID_ARGUMENT, "{}: {}; data must be one file: text, .bin or .safetensors", shown,
       status.type() == fs::file_type::directory ? "this is a folder" : "this is not a regular file");
}

void refuse_token(const std::string& path, const std::string& where, int64_t token, int64_t vocabulary_size) {
  fail(WEFT_INVALID_ARGUMENT,
       "{}: token {} {} is outside the model's vocabulary, which has 0 to {}; use the tokenizer of this "
       "model{}",
       path, token, where, vocabulary_size - 1, path.ends_with(".bin") ? ", and check --token-type" : "");
}

}  // namespace weft::data
