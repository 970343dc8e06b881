// The pins of a user: which version of a plugin is used where a job names none.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "host/semantic_version.hpp"

namespace weft::host {

// The file pins.json of the user's plugin folder: {"pins": {"ID": "0.3.1"}}.
struct Pins {
  std::filesystem::path file;  // empty: the user's folder is not searched
  std::map<std::string, VersionRequest, std::less<>> by_id;
  std::optional<std::string> problem;  // why the file cannot be used

  // Throws FAILED_PRECONDITION if the file cannot be used.
  void require_usable() const;
};

// Reads the pins in the user's folder, of which there are none if `folder` is empty or has no such file. A
// file that others can write is a problem, as it is with a plugin.
Pins read_pins(const std::filesystem::path& folder);

// Replaces the file.
void write_pins(const Pins& pins);

}  // namespace weft::host
