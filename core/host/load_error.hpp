// The stages that a library passes on its way into the process, and the error that names the one where it
// failed.
#pragma once

#include <string>
#include <string_view>
#include <weft/error.hpp>

namespace weft::host {

// In the order of the pipeline. Everything up to kTrust reads files only; no code of a plugin runs before
// kDlopen.
enum class Stage {
  kFind,      // the folder and the file are there
  kManifest,  // plugin.json is whole
  kNote,      // the library's ELF note is there and says the same
  kArch,      // for this machine
  kAbiMajor,
  kAbiMinor,
  kTier,      // known, and what it links fits it
  kTorchTag,  // the same libtorch
  kTrust,     // nobody else can write it, inside its root, digest as in the manifest
  kDlopen,
  kEntry,          // the one exported symbol
  kNegotiate,      // the plugin agrees to a minor, and is who it said
  kTableValidate,  // its tables have what is required
  kDoubleTorch,    // still one libtorch in the process
  kInit,
  kRegister,  // no other plugin provides the same name
};

std::string_view stage_name(Stage stage);  // "ABI_MAJOR"

// The text is `<STAGE>: <what was found, what was wanted>; <remedy>`.
class LoadError : public Error {
 public:
  LoadError(Stage stage, weft_status status, const std::string& text);
  Stage stage() const { return stage_; }
  // True if another version of the plugin may be taken instead: this one was made for another host, nothing
  // is broken.
  bool is_incompatible() const { return stage_ >= Stage::kArch && stage_ <= Stage::kTorchTag; }

 private:
  Stage stage_;
};

}  // namespace weft::host
