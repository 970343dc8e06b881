// The classes of a model family, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::nn {

// Throws NOT_FOUND naming the nearest of `known` and all of them.
[[noreturn]] void refuse_architecture(std::string_view family, std::string_view name,
                                      const std::vector<std::string>& known);

// The element of `table` whose `name` is that of a Hugging Face class. Throws NOT_FOUND as above.
template <class Table>
const auto& find_architecture(const Table& table, std::string_view family, std::string_view name) {
  std::vector<std::string> known;
  for (const auto& architecture : table) {
    if (architecture.name == name) return architecture;
    known.emplace_back(architecture.name);
  }
  refuse_architecture(family, name, known);
}

}  // namespace weft::nn
