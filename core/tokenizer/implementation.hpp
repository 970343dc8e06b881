// What is behind a Tokenizer: the parts that its files describe, or a library of plugin kind "tokenizer".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tokenizer.hpp"

namespace weft::tokenizer {

// The bytes of files by name, or by the path in the folder.
using Files = std::map<std::string, std::string>;
// Jinja by name; the usual one is "default", that of conversations with tools "tool_use".
using ChatTemplates = std::map<std::string, std::string, std::less<>>;

class Implementation {
 public:
  virtual ~Implementation() = default;
  // Each as the function of Tokenizer with this name.
  virtual std::vector<int64_t> encode(std::string_view text, bool add_special_tokens) const = 0;
  virtual std::vector<int64_t> encode_pair(std::string_view first, std::string_view second,
                                           std::vector<int64_t>* types) const = 0;
  virtual std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens) const = 0;
  virtual int64_t vocabulary_size() const = 0;
  virtual std::optional<int64_t> id_of(std::string_view token) const = 0;
  virtual std::string token_of(int64_t id) const = 0;

  struct Facts {
    std::string source;  // what is opened, for messages
    Files files;         // all that belong to the tokenizer, as they were when it was opened
    std::string digest;
    ChatTemplates chat_templates;
    std::array<std::optional<int64_t>, 7> roles;  // in the order of Role
    bool pads_left = false, truncates_left = false;
    bool cleans_up = false;  // decode joins punctuation with the word in front of it
  };
  const Facts& facts() const { return facts_; }

 protected:
  Facts facts_;
};

// Opens the tokenizer of a folder; empty if no library has the class.
using OpenFolder = std::function<std::unique_ptr<const Implementation>(const std::string& folder)>;
// Sets who looks for the library of a class, which the "tokenizer_class" of tokenizer_config.json names.
using ClassSource = OpenFolder (*)(const std::string& class_name);
void set_class_source(ClassSource source);

}  // namespace weft::tokenizer

struct weft::Tokenizer::State {
  std::unique_ptr<const tokenizer::Implementation> implementation;
};
