// The spellings of tokens and their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::tokenizer {

class TokenTable {
 public:
  // Adds a token; of two with one spelling, or with one id, the later one counts. Throws DATA_LOSS, naming
  // `source`, for an id below 0 or above 2^22, where memory for the table would be out of proportion.
  void add(std::string_view token, int64_t id, const std::string& source);

  std::optional<int64_t> find(std::string_view token) const;
  const std::string& spelling(int64_t id) const;  // empty if there is none
  bool has(int64_t id) const;
  int64_t size() const { return static_cast<int64_t>(spellings_.size()); }  // one more than the largest id
  size_t count() const { return ids_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::vector<std::string> spellings_;
  std::vector<bool> known_;
};

}  // namespace weft::tokenizer
