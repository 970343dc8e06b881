// What comes around and between the ids of sequences: the part "post_processor" of tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace weft::tokenizer {

class PostProcessor {
 public:
  // One element of a template: a sequence, or special tokens.
  struct Element {
    int sequence = -1;         // 0 or 1; -1: `ids`
    std::vector<int64_t> ids;  // of special tokens
    int64_t type = 0;
  };
  using Template = std::vector<Element>;

  PostProcessor() = default;  // adds nothing
  // Reads the part, which may be null. Throws UNIMPLEMENTED and DATA_LOSS as the other parts do.
  PostProcessor(const nlohmann::json& part, const std::string& source);
  // Puts ids in front of each sequence and behind it.
  PostProcessor(std::optional<int64_t> begin, std::optional<int64_t> end);

  // Joins one or two sequences. `types`, where given, receives a type for each id.
  std::vector<int64_t> join(const std::vector<std::vector<int64_t>>& sequences, bool add_special_tokens,
                            std::vector<int64_t>* types) const;

 private:
  void read(const nlohmann::json& part, const std::string& source);

  Template single_ = {{0, {}, 0}};
  Template pair_ = {{0, {}, 0}, {1, {}, 1}};
  bool joins_ = false;  // has a template that is not the one of no part
};

}  // namespace weft::tokenizer
