// plugin.json, the manifest of a plugin, which is read before the plugin is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_table.hpp"
#include "host/abi_range.hpp"

namespace weft::host {

constexpr size_t kLargestManifest = 1 << 20;

struct LibraryEntry {
  std::string file;  // a file name without folders, beside plugin.json
  std::string
      kind;  // "strategy", "shard_policy", "model", "checkpoint_io", "operation", "device", "tokenizer"
  uint32_t tier = 0;
  std::vector<std::string> provides;
  std::string torch_tag;  // tiers torch and native: of the libtorch that it needs
  std::string torch_min;  // tier stable: the oldest version of libtorch that it runs with
  std::string build_id;   // tier native only
  std::string sha256;
};

struct Manifest {
  std::string id, version, description, license, url;
  bool is_default = false;
  AbiRange abi;
  std::vector<LibraryEntry> libraries;
  OptionTable options;
  std::string text;                   // the contents of the file
  std::vector<std::string> warnings;  // unknown keys
};

// Parses and reads a manifest. Throws LoadError (MANIFEST) with `source`, the key, its value and what it must
// be.
Manifest parse_manifest(std::string_view text, std::string_view source);
Manifest read_manifest(const std::filesystem::path& path);

std::string_view tier_name(uint32_t tier);  // "c", "torch", "native", "stable"

}  // namespace weft::host
