// What a tokenizer has read from its files.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/folder.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/post_processor.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

struct Tokenizer::State {
  explicit State(tokenizer::FolderFiles read);

  // Returns the ids of one sequence, without the special tokens around it.
  std::vector<int64_t> encode(std::string_view text) const;
  bool has(int64_t id) const { return added.tokens().has(id) || model->tokens().has(id); }
  const std::string& spelling(int64_t id) const {
    return added.tokens().has(id) ? added.tokens().spelling(id) : model->tokens().spelling(id);
  }

  tokenizer::FolderFiles files;
  std::string source;  // the path of the vocabulary
  std::unique_ptr<tokenizer::Normalizer> normalizer;
  std::unique_ptr<tokenizer::PreTokenizer> pre_tokenizer;
  std::unique_ptr<tokenizer::Model> model;
  std::unique_ptr<tokenizer::Decoder> decoder;
  tokenizer::AddedTokens added;
  tokenizer::PostProcessor post_processor;
  std::array<std::optional<int64_t>, 7> roles;  // in the order of Role
  bool cleans_up = false, pads_left = false;

 private:
  void add_tokens();
  void add_roles();
  void add_post_processor();
  void encode_between(std::string text, bool first, std::vector<int64_t>& ids) const;
};

}  // namespace weft
