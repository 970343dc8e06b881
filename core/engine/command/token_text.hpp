// Where text becomes token ids and ids become text. A model whose tokens are bytes needs no tokenizer; models
// with another vocabulary take and give ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::command {

class TokenText {
 public:
  // `folder` is the path of the model, `vocabulary` the number of its tokens.
  TokenText(const std::string& folder, int64_t vocabulary);
  // Returns whether text can be converted at all.
  bool works() const { return bytes_; }
  // Returns the tokens of `text`. Throws INVALID_ARGUMENT, naming `source` ("--prompt"), if it cannot be
  // converted.
  std::vector<int64_t> ids_of(const std::string& text, const std::string& source) const;
  // Returns the text of tokens, which need not be UTF-8.
  std::string text_of(const std::vector<int64_t>& ids) const;

 private:
  const bool bytes_;
};

}  // namespace weft::command
