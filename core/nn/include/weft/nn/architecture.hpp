// The classes of a model family, and how to find one by its name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/head.hpp"

namespace weft::nn {

class Embedding;

// What the heads of a family of token models are made from.
template <class Config>
struct HeadSetting {
  torch::nn::Module& model;    // in which heads register their modules
  const Embedding& embedding;  // of the tokens, whose weight a head may share
  const Config& config;
  at::ScalarType dtype;
};

// Returns the head of a base model, for tables of classes.
template <class Setting>
std::unique_ptr<Head> base_head(const Setting&) {
  return make_base_head();
}

// A class of a model family, which differs from the others in its head. `Setting` is what the heads of the
// family are made from.
template <class Setting>
struct Architecture {
  std::string_view name;    // of the Hugging Face class
  std::string_view prefix;  // of the base model's parameters: "transformer." or nothing
  std::unique_ptr<Head> (*make_head)(const Setting& setting);
};

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
