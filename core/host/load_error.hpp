// The stages of loading a plugin, and the error that names the stage that failed.
#pragma once

#include <string>
#include <string_view>
#include <weft/error.hpp>

namespace weft::host {

// The stages in their order. All stages up to kTrust only read files; no code of a plugin runs before
// kDlopen.
enum class Stage {
  kFind,      // the folder and the file exist
  kManifest,  // plugin.json is valid
  kNote,      // the library has an ELF note that agrees with plugin.json
  kArch,      // the library is for this machine
  kAbiMajor,
  kAbiMinor,
  kTier,      // the tier is known, and the library links only what it allows
  kTorchTag,  // built against the same libtorch
  kTrust,     // inside its search path, writable only by trusted_owners(), and its digest is right
  kDlopen,
  kEntry,          // it exports weft_plugin_query_v1
  kNegotiate,      // the plugin accepts the ABI version and has the id and version of its manifest
  kTableValidate,  // its tables have all required functions
  kDoubleTorch,    // there is one libtorch in the process, not two
  kInit,
  kRegister,  // no other loaded plugin provides the same name
};

std::string_view stage_name(Stage stage);  // "ABI_MAJOR"

// An error of one stage. Its text is `<STAGE>: <what was found, what was expected>; <what to do>`.
class LoadError : public Error {
 public:
  LoadError(Stage stage, weft_status status, const std::string& text);
  Stage stage() const { return stage_; }
  // Returns true if another version of the plugin may be loaded instead, because this one is intact but was
  // built for another host.
  bool is_incompatible() const { return stage_ >= Stage::kArch && stage_ <= Stage::kTorchTag; }

 private:
  Stage stage_;
};

}  // namespace weft::host
