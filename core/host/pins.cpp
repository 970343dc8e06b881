#include "host/pins.hpp"

#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "host/trust.hpp"

namespace weft::host {
namespace {

using nlohmann::json;

constexpr size_t kLargestPins = 1 << 20;
constexpr const char* kPins = "pins";

std::map<std::string, VersionRequest, std::less<>> parse_pins(const json& object) {
  if (!object.is_object() || object.size() != 1 || !object.contains(kPins) || !object[kPins].is_object())
    fail(WEFT_INVALID_ARGUMENT, "it must be an object with \"{}\", an object of versions", kPins);
  std::map<std::string, VersionRequest, std::less<>> pins;
  for (const auto& [id, version] : object[kPins].items()) {
    const std::string named = fmt::format("the version of \"{}\"", printable(id));
    if (!version.is_string() || version.get<std::string>().empty())
      fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a text", named, json_kind(version));
    pins.emplace(id, VersionRequest(version.get<std::string>(), named));
  }
  return pins;
}

}  // namespace

void Pins::require_usable() const {
  if (problem) fail(WEFT_FAILED_PRECONDITION, "{}", *problem);
}

Pins read_pins(const std::filesystem::path& folder) {
  Pins pins;
  if (folder.empty()) return pins;
  pins.file = folder / "pins.json";
  std::error_code code;
  if (std::filesystem::symlink_status(pins.file, code).type() == std::filesystem::file_type::not_found)
    return pins;
  const std::string source = pins.file.string();
  try {
    if (const auto intruder = find_intruder(pins.file, folder, trusted_owners("/")))
      fail(WEFT_PERMISSION_DENIED, "{}", *intruder);
    pins.by_id = parse_pins(parse_json(read_file(pins.file, kLargestPins), source));
  } catch (const Error& error) {
    pins.problem = fmt::format(
        "the pins of plugins in {} cannot be used: {}; repair the file, or remove it and pin again", source,
        error.what());
  }
  return pins;
}

void write_pins(const Pins& pins) {
  json object = {{kPins, json::object()}};
  for (const auto& [id, request] : pins.by_id) object[kPins][id] = request.text();
  ReplacedFile file(pins.file);
  file.restrict_to(0644);  // what a user's group can write is not trusted
  file.write(object.dump(2) + "\n");
  file.commit();
}

}  // namespace weft::host
