#include "tokenizer/token_table.hpp"

#include "base/text.hpp"

namespace weft::tokenizer {

void TokenTable::add(std::string_view token, int64_t id, const std::string& source) {
  constexpr int64_t kMostTokens = int64_t{1} << 22;
  if (id < 0 || id >= kMostTokens)
    fail(WEFT_DATA_LOSS, "{}: the token \"{}\" has the id {}, must be from 0 to {}", source, printable(token),
         id, kMostTokens - 1);
  if (id >= size()) {
    spellings_.resize(static_cast<size_t>(id) + 1);
    known_.resize(spellings_.size());
  }
  spellings_[static_cast<size_t>(id)] = token;
  known_[static_cast<size_t>(id)] = true;
  ids_.insert_or_assign(std::string(token), id);
}

std::optional<int64_t> TokenTable::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string& TokenTable::spelling(int64_t id) const {
  static const std::string none;
  return has(id) ? spellings_[static_cast<size_t>(id)] : none;
}

bool TokenTable::has(int64_t id) const {
  return id >= 0 && id < size() && known_[static_cast<size_t>(id)];
}

}  // namespace weft::tokenizer
