#include "booster/agreement.hpp"

#include <set>

#include "base/text.hpp"

namespace weft {

namespace {

constexpr size_t kLongest = 300;

std::string shortened(const nlohmann::json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// The innermost values that differ, by the path of their keys.
void add_differences(const nlohmann::json& first, const nlohmann::json& other, const std::string& path,
                     std::vector<std::array<std::string, 3>>& out) {
  if (first == other) return;
  if (first.is_array() && other.is_array() && first.size() == other.size()) {
    for (size_t i = 0; i < first.size(); ++i)
      add_differences(first[i], other[i], path + " " + std::to_string(i), out);
    return;
  }
  if (!first.is_object() || !other.is_object()) {
    out.push_back({path, shortened(first), shortened(other)});
    return;
  }
  std::set<std::string> keys;
  for (const auto* side : {&first, &other})
    for (const auto& item : side->items()) keys.insert(item.key());
  for (const std::string& key : keys)
    add_differences(first.value(key, nlohmann::json()), other.value(key, nlohmann::json()),
                    path.empty() ? key : path + " " + key, out);
}

}  // namespace

void require_agreement(const Communicator& ranks, const nlohmann::json& facts) {
  if (ranks.size() == 1) return;
  const std::vector<std::string> all = ranks.gather_text(facts.dump());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::vector<std::array<std::string, 3>> differences;
    add_differences(nlohmann::json::parse(all[0]), nlohmann::json::parse(all[rank]), "", differences);
    std::string text;
    for (const auto& [name, first, other] : differences)
      text += fmt::format("\n{}: rank 0 has {}, rank {} has {}", name, first, rank, other);
    fail(WEFT_FAILED_PRECONDITION,
         "ranks 0 and {} were not started alike; give every rank the same options, files and plugins{}", rank,
         text);
  }
}

}  // namespace weft
