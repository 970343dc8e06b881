// The file of --config: options by their names, in YAML or JSON.
//
//   model: folder
//   data: [books.jsonl, wiki.jsonl=0.5]
//   options: {pin_memory: no}
//   lr: 1e-4
//
// A value is read as the option declares it, as if it stood behind its flag, and never as YAML would guess:
// `no` is a text for an option that is a text, and 0x10 is no number.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::cli {

// The largest text, which the starter of ranks hands to them through their environment.
inline constexpr size_t kLargestConfig = 64 << 10;

// Returns the values of options of `verb` that a text gives, by name; null means "not given". `path` is for
// messages, which name the line, and tells JSON (.json) from YAML. Throws UsageError for text that is
// neither, an unknown or repeated option, a value that its option does not allow, an anchor, alias or tag,
// and several documents.
nlohmann::json read_config(const std::string& verb, const std::string& text, const std::string& path);

}  // namespace weft::cli
