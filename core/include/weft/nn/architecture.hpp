// Finds a class of a model family by its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::nn {

// Throws NOT_FOUND. The message suggests the most similar name of `known` and lists all of them.
[[noreturn]] void refuse_architecture(std::string_view family, std::string_view name,
                                      const std::vector<std::string>& known);

// Returns the element of `table` whose member `name` is the name of the Hugging Face class. Throws NOT_FOUND
// like refuse_architecture().
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
