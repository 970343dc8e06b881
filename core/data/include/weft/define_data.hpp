// A library of data sets, plugin kind "data", tier `native`, around a function that opens them:
//
//   std::shared_ptr<weft::data::Dataset> open(const weft::data::OpenRequest& request);
//   says WEFT_DATA_LIBRARY(open)
//
// Users choose it by name: weft train --dataset NAME --data PATH --dataset-option KEY=VALUE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/define_plugin.h"
#include "weft/tokenizer.hpp"
#include "weft/torch/options.hpp"
#include "weft/vocabulary.hpp"

namespace weft::data {

// What a user wants to read. Every rank opens the same data, and reads its part of every batch by index.
struct OpenRequest {
  std::string name;                      // one that plugin.json says the library provides
  std::vector<std::string> paths;        // of --data, as they were written
  plugin::Options options;               // all that plugin.json declares
  int64_t sequence_length = 0;           // --sequence-length; 0: not given
  std::string architecture;              // the model's class
  std::vector<Vocabulary> vocabularies;  // of the model's inputs that are tokens
  std::optional<Tokenizer> tokenizer;    // of --tokenizer, or of the model's folder
  int64_t seed = 0;
  // Prints a line for the user, on the first rank.
  std::function<void(const std::string& line)> note;
};

// Returns the data set. Without --objective its samples have the labels that the model learns from. Throws
// weft::Error, with the path: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS.
using OpenLibrary = std::shared_ptr<Dataset> (*)(const OpenRequest& request);

// What the library returns under the id of the factory.
struct DataFactory {
  uint64_t struct_size = sizeof(DataFactory);
  OpenLibrary open = nullptr;
};
// The id of the factory.
inline constexpr const char* kDataFactory = "weft.factory.data/1";

}  // namespace weft::data

// Id and version come from plugin.json through weft_add_plugin().
#define WEFT_DATA_LIBRARY(open)                                                                  \
  static const void* weft_find_factory(const weft_plugin*, weft_str id) {                        \
    static constexpr weft::data::DataFactory kFactory = {sizeof(weft::data::DataFactory), open}; \
    return std::string_view(id.data, id.size) == weft::data::kDataFactory ? &kFactory : nullptr; \
  }                                                                                              \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft_find_factory)
