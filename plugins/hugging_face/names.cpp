#include "names.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "text.hpp"

namespace weft::hugging_face {
namespace {

struct Stems {
  std::string_view stem, extension;
};

Stems stems(bool safetensors) {
  return safetensors ? Stems{"model", ".safetensors"} : Stems{"pytorch_model", ".bin"};
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "-00001" or "-00001-of-00002"
bool is_shard_number(std::string_view text) {
  if (!text.starts_with('-')) return false;
  text.remove_prefix(1);
  const std::size_t of = text.find("-of-");
  return of == std::string_view::npos ? all_digits(text)
                                      : all_digits(text.substr(0, of)) && all_digits(text.substr(of + 4));
}

bool ends_with_shard_number(std::string_view text) {
  for (std::size_t dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    if (is_shard_number(text.substr(dash))) return true;
  }
  return false;
}

// Sets the text between `head` and `tail`; returns false if the name does not begin and end with them.
bool between(std::string_view name, std::string_view head, std::string_view tail, std::string_view& middle) {
  if (name.size() < head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    return false;
  middle = name.substr(head.size(), name.size() - head.size() - tail.size());
  return true;
}

}  // namespace

std::string FileNames::single() const {
  const auto [stem, extension] = stems(safetensors);
  return concat(stem, prefix.empty() ? "" : ".", prefix, extension);
}

std::string FileNames::index() const {
  const auto [stem, extension] = stems(safetensors);
  return concat(stem, extension, ".index", prefix.empty() ? "" : ".", prefix, ".json");
}

std::string FileNames::shard(uint64_t number, uint64_t count) const {
  const auto [stem, extension] = stems(safetensors);
  char numbers[64];
  std::snprintf(numbers, sizeof(numbers), "-%05llu-of-%05llu", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(count));
  return concat(stem, prefix.empty() ? "" : ".", prefix, numbers, extension);
}

bool FileNames::owns(std::string_view name) const {
  for (bool format : {true, false}) {
    const FileNames names{prefix, format};
    if (name == names.single() || name == names.index()) return true;
    const auto [stem, extension] = stems(format);
    std::string_view number;
    const std::string head = concat(stem, prefix.empty() ? "" : ".", prefix);
    if (between(name, head, extension, number) && is_shard_number(number)) return true;
  }
  return false;
}

void check_prefix(const std::string& prefix) {
  const bool fits = prefix.size() <= 100 && prefix.find('/') == std::string::npos &&
                    prefix.find('\0') == std::string::npos && !prefix.starts_with('.') &&
                    !prefix.ends_with('.');
  if (!fits) {
    fail(WEFT_INVALID_ARGUMENT, "prefix ", in_quotes(prefix),
         " cannot be a part of a file name: no \"/\", no dot at either end, at most 100 bytes");
  }
}

Candidates find_candidates(const std::vector<std::string>& names, bool safetensors) {
  const FileNames plain{"", safetensors};
  const auto [stem, extension] = stems(safetensors);
  Candidates found;
  for (const std::string& name : names) {
    std::string_view prefix;
    if (name == plain.single() || name == plain.index()) {
      found.plain.push_back(name);
    } else if (between(name, concat(stem, extension, ".index."), ".json", prefix)) {
      found.prefixed.push_back(name);
    } else if (between(name, concat(stem, "."), extension, prefix)) {
      if (!ends_with_shard_number(prefix)) found.prefixed.push_back(name);
    }
  }
  return found;
}

bool is_index_name(std::string_view name) {
  return name.ends_with(".json") && name.find(".index.") != std::string_view::npos;
}

}  // namespace weft::hugging_face
