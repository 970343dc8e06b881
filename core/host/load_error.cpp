#include "host/load_error.hpp"

#include <array>

#include "base/text.hpp"

namespace weft::host {

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, 16> kNames = {
      "FIND",  "MANIFEST", "NOTE",  "ARCH",      "ABI_MAJOR",      "ABI_MINOR",    "TIER", "TORCH_TAG",
      "TRUST", "DLOPEN",   "ENTRY", "NEGOTIATE", "TABLE_VALIDATE", "DOUBLE_TORCH", "INIT", "REGISTER"};
  return kNames.at(static_cast<size_t>(stage));
}

LoadError::LoadError(Stage stage, weft_status status, const std::string& text)
    : Error(status, fmt::format("{}: {}", stage_name(stage), text)), stage_(stage) {}

}  // namespace weft::host
