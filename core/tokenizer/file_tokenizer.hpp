// A tokenizer that its files describe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/folder.hpp"
#include "tokenizer/implementation.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/post_processor.hpp"

namespace weft::tokenizer {

class FileTokenizer : public Implementation {
 public:
  explicit FileTokenizer(FolderFiles files);

  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens) const override;
  std::vector<int64_t> encode_pair(std::string_view first, std::string_view second,
                                   std::vector<int64_t>* types) const override;
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const override;
  int64_t vocabulary_size() const override;
  std::optional<int64_t> id_of(std::string_view token) const override;
  std::string token_of(int64_t id) const override { return spelling(id); }

 private:
  void add_tokens(const FolderFiles& files);
  void add_roles(const FolderFiles& files);
  void add_post_processor(const FolderFiles& files);
  // Returns the ids of one sequence, without the special tokens around it.
  std::vector<int64_t> encode_plain(std::string_view text) const;
  void encode_between(std::string text, bool first, std::vector<int64_t>& ids, Limits& limits) const;
  bool has(int64_t id) const { return added_.tokens().has(id) || model_->tokens().has(id); }
  const std::string& spelling(int64_t id) const {
    return added_.tokens().has(id) ? added_.tokens().spelling(id) : model_->tokens().spelling(id);
  }

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Decoder> decoder_;
  AddedTokens added_;
  std::string rule_of_added_;  // their name in messages
  PostProcessor post_processor_;
};

}  // namespace weft::tokenizer
