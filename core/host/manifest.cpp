#include "host/manifest.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/text.hpp"
#include "host/load_error.hpp"
#include "host/semantic_version.hpp"

namespace weft::host {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kTiers = {"c", "torch", "native", "stable"};
constexpr std::array<std::string_view, 10> kKinds = {
    "strategy", "shard_policy", "model", "checkpoint_io", "operation",
    "device",   "tokenizer",    "data",  "objective",     "hook"};

// An object of the manifest, and its place in the file for messages.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse("is {}, must be an object", json_kind(object));
  }

  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw LoadError(Stage::kManifest, WEFT_INVALID_ARGUMENT,
                    fmt::format("{} {}", where_, fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  const json& at(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) refuse("has no \"{}\"", key);
    return *value;
  }
  std::string text(const char* key, bool required) const {
    if (!required && find(key) == nullptr) return "";
    const json& value = at(key);
    if (!value.is_string()) refuse("has \"{}\" as {}, must be a text", key, json_kind(value));
    return value.get<std::string>();
  }
  uint32_t number(const char* key) const {
    const json& value = at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
      refuse("has \"{}\" as {}, must be a whole number", key, printable(value.dump(), 40));
    }
    return value.get<uint32_t>();
  }
  // Adds a warning for each key that is not `known`.
  void warn_unknown(const std::vector<std::string>& known, std::vector<std::string>& warnings) const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      warnings.push_back(fmt::format("{} has an unknown key \"{}\"{}", where_, printable(key, 60),
                                     did_you_mean(key, known)));
    }
  }

 private:
  const json& object_;
  std::string where_;
};

// Returns the tiers that a library of this kind may have if it has another one; empty if `tier` is right.
std::string fitting_tiers(std::string_view kind, uint32_t tier) {
  const bool is_cxx = kind == "model" || kind == "device" || kind == "data" || kind == "objective";
  if (is_cxx) return tier == WEFT_TIER_NATIVE ? "" : "native";
  if (kind == "operation")
    return tier == WEFT_TIER_NATIVE || tier == WEFT_TIER_STABLE ? "" : "native or stable";
  return tier != WEFT_TIER_STABLE || kind == "strategy" ? "" : "c, torch or native";
}

LibraryEntry parse_library(const json& object, const std::string& source,
                           std::vector<std::string>& warnings) {
  const Reader reader(object, fmt::format("{}: an entry of \"libraries\"", source));
  LibraryEntry entry;
  entry.file = reader.text("file", true);
  if (!is_plain_name(entry.file)) {
    reader.refuse("has \"file\" as \"{}\", must be the plain name of a file beside it",
                  printable(entry.file));
  }
  entry.kind = reader.text("kind", true);
  if (std::find(kKinds.begin(), kKinds.end(), entry.kind) == kKinds.end()) {
    reader.refuse("has \"kind\" as \"{}\", must be one of {}", printable(entry.kind),
                  fmt::join(kKinds, ", "));
  }
  const std::string tier = reader.text("tier", true);
  const auto found = std::find(kTiers.begin(), kTiers.end(), tier);
  if (found == kTiers.end())
    reader.refuse("has \"tier\" as \"{}\", must be {}", printable(tier), fmt::join(kTiers, ", "));
  entry.tier = static_cast<uint32_t>(found - kTiers.begin());
  if (const std::string fitting = fitting_tiers(entry.kind, entry.tier); !fitting.empty())
    reader.refuse("has \"tier\" as \"{}\", but a library of kind {} must be of tier {}", tier, entry.kind,
                  fitting);
  const json& provides = reader.at("provides");
  if (!provides.is_array() || provides.empty()) reader.refuse("has \"provides\" not as a list of names");
  for (const json& name : provides) {
    if (!name.is_string() || !is_plain_name(name.get<std::string>())) {
      reader.refuse("has {} in \"provides\", must be a name", printable(name.dump(), 60));
    }
    entry.provides.push_back(name.get<std::string>());
  }
  if (entry.tier == WEFT_TIER_STABLE) {
    entry.torch_min = reader.text("torch_min", true);
    if (!is_version(entry.torch_min))
      reader.refuse("has \"torch_min\" as \"{}\", must be a version of libtorch like 2.10.0",
                    printable(entry.torch_min));
  } else {
    entry.torch_tag = reader.text("torch_tag", entry.tier != WEFT_TIER_C);
  }
  entry.build_id = reader.text("build_id", entry.tier == WEFT_TIER_NATIVE);
  entry.sha256 = reader.text("sha256", true);
  const bool is_hex = entry.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (entry.sha256.size() != 64 || !is_hex) {
    reader.refuse(
        "has \"sha256\" as \"{}\", must be 64 lower-case hexadecimal digits (`weft plugins digest FILE`)",
        printable(entry.sha256, 80));
  }
  reader.warn_unknown({"file", "kind", "tier", "provides", "torch_tag", "torch_min", "build_id", "sha256"},
                      warnings);
  return entry;
}

AbiRange parse_abi(const json& object, const std::string& source, std::vector<std::string>& warnings) {
  const Reader reader(object, fmt::format("{}: \"abi\"", source));
  const AbiRange abi = {reader.number("major"), reader.number("minor_min"), reader.number("minor")};
  if (abi.minor_min > abi.minor) reader.refuse("has minor_min {} above minor {}", abi.minor_min, abi.minor);
  reader.warn_unknown({"major", "minor_min", "minor"}, warnings);
  return abi;
}

Manifest parse(const json& object, const std::string& source) {
  const Reader reader(object, source);
  // New keys do not change this number. Another number means that the meaning of old keys has changed.
  if (const uint32_t format = reader.number("manifest_version"); format != 1) {
    reader.refuse("has manifest_version {}, this Weft reads version 1; update Weft", format);
  }
  Manifest manifest;
  manifest.id = reader.text("id", true);
  if (!is_plain_name(manifest.id)) {
    reader.refuse("has \"id\" as \"{}\", must consist of letters, digits and _ - . +",
                  printable(manifest.id));
  }
  manifest.version = reader.text("version", true);
  if (!is_version(manifest.version)) {
    reader.refuse("has \"version\" as \"{}\", must be like 1.2.3", printable(manifest.version));
  }
  manifest.description = reader.text("description", false);
  manifest.license = reader.text("license", false);
  manifest.url = reader.text("url", false);
  if (const json* value = reader.find("default")) {
    if (!value->is_boolean())
      reader.refuse("has \"default\" as {}, must be true or false", json_kind(*value));
    manifest.is_default = value->get<bool>();
  }
  manifest.abi = parse_abi(reader.at("abi"), source, manifest.warnings);
  const json& libraries = reader.at("libraries");
  if (!libraries.is_array() || libraries.empty())
    reader.refuse("has \"libraries\" not as a list of libraries");
  for (const json& library : libraries) {
    manifest.libraries.push_back(parse_library(library, source, manifest.warnings));
  }
  manifest.options = option_table_of_plugin(object, source);
  reader.warn_unknown({"manifest_version", "id", "version", "description", "license", "url", "default", "abi",
                       "libraries", "groups", "defaults", "options"},
                      manifest.warnings);
  return manifest;
}

}  // namespace

Manifest parse_manifest(std::string_view text, std::string_view source) {
  try {
    Manifest manifest = parse(parse_json(text, source), std::string(source));
    manifest.text = text;
    return manifest;
  } catch (const LoadError&) {
    throw;
  } catch (const Error& error) {
    throw LoadError(Stage::kManifest, error.status(), error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_file(path, kLargestManifest);
  } catch (const Error& error) {
    throw LoadError(Stage::kManifest, error.status(), error.what());
  }
  return parse_manifest(text, path.string());
}

std::string_view tier_name(uint32_t tier) {
  return tier < kTiers.size() ? kTiers[tier] : "unknown";
}

}  // namespace weft::host
