// Where text becomes token ids and ids become text: with the tokenizer of the model's folder. A model whose
// tokens are bytes needs none; models without one take and give ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/tokenizer.hpp"

namespace weft::command {

class TokenText {
 public:
  // `folder` is the path of the model, `vocabulary` the number of its tokens. If the folder has a tokenizer
  // that cannot be opened, only a text that is to be converted makes this an error.
  TokenText(const std::string& folder, int64_t vocabulary);
  // Returns whether text can be converted at all.
  bool works() const { return bytes_ || tokenizer_; }
  // Returns the tokens of `text`, with the special tokens that the tokenizer puts around it. Throws
  // INVALID_ARGUMENT, naming `source` ("--prompt"), if there is no tokenizer, and what its files are refused
  // with.
  std::vector<int64_t> ids_of(const std::string& text, const std::string& source) const;
  // Throws INVALID_ARGUMENT as ids_of() does, naming the flag that takes ids in place of text, unless
  // works().
  void require(const std::string& source, const std::string& flag_of_ids) const;
  // Returns the text of tokens without special ones, which need not be UTF-8 where tokens are bytes.
  std::string text_of(const std::vector<int64_t>& ids) const;

  // Returns the text of one token after the other.
  class Stream {
   public:
    explicit Stream(const TokenText& text);
    std::string add(int64_t id);
    std::string end();  // returns what waited for more tokens

   private:
    std::optional<Tokenizer::StreamDecoder> decoder_;  // nothing: bytes
  };

 private:
  const bool bytes_;
  std::optional<Tokenizer> tokenizer_;
  std::function<void()> refuse_;  // throws what the tokenizer was refused with
};

}  // namespace weft::command
