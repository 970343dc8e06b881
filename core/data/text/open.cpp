// Opens data files by their extension.
#include "base/text.hpp"
#include "files/tensor_file.hpp"
#include "loader/shared_checks.hpp"
#include "text/text_files.hpp"
#include "text/token_windows.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

int bytes_per_token(TokenType type) {
  return type == TokenType::kUint16 ? 2 : 4;
}

}  // namespace

std::shared_ptr<Dataset> text(const std::string& path, int64_t sequence_length) {
  return std::make_shared<TokenWindows>(path, sequence_length, 1);
}

std::shared_ptr<Dataset> tokens(const std::string& path, int64_t sequence_length, TokenType type) {
  return std::make_shared<TokenWindows>(path, sequence_length, bytes_per_token(type));
}

std::shared_ptr<Dataset> tensors(const std::string& path) {
  check_is_file(path);
  return tensors(open_tensor_file(path), path, {});
}

std::shared_ptr<Dataset> open(const std::string& path, int64_t sequence_length, TokenType type,
                              const std::vector<Vocabulary>& vocabularies) {
  check_is_file(path);
  if (path.ends_with(".safetensors")) return tensors(open_tensor_file(path), path, vocabularies);
  const bool is_text = !path.ends_with(".bin");
  if (is_text) refuse_other_format(path, path);
  if (has_table(path))
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}: it is a table by its name, whose rows need a tokenizer; to train on its characters as they are, "
        "rename it to end in .txt",
        path);
  auto windows = std::make_shared<TokenWindows>(path, sequence_length, is_text ? 1 : bytes_per_token(type));
  if (const int64_t zero = is_text ? windows->first_zero_byte(4096) : -1; zero >= 0) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: not text, byte {} is zero; the name of a file of tokens must end in .bin, of tensors in "
         ".safetensors",
         path, zero);
  }
  for (const Vocabulary& vocabulary : vocabularies)
    if (vocabulary.field == nn::kInputIds) windows->check_vocabulary(vocabulary.size);
  return windows;
}

}  // namespace weft::data
