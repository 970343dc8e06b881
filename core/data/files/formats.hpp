// Checkpoint formats, which are plugins: by name, and which of them reads a path.
#pragma once

#include <string>
#include <vector>

#include "weft/checkpoint_io.h"

namespace weft::checkpoint {

// A format of a loaded library. Valid until the process ends.
struct Format {
  const weft_checkpoint_io* io;
  std::string name;      // under which it was found
  std::string label;     // "NAME of PLUGIN 1.0.0", for messages
  std::string identity;  // of its plugin (plugin_identity)
};

// Returns the format NAME, or NAME@VERSION; the default one if the text is empty. The default is the one that
// is installed with Weft. Throws the error of the loader.
const Format& format_named(const std::string& wanted);

// Returns true if it is the default format, under any of its names. False without a default.
bool is_default(const Format& format);

// Returns the format that reads `path`: asks all that are installed, in the order of their names, the default
// one last. Null if none recognises it. If several do, returns `wanted` if that is one of them and throws
// INVALID_ARGUMENT otherwise, naming two and the option. A format that cannot be loaded is passed over with a
// warning.
const Format* find_format_of(const std::string& path, const std::string& wanted);

// Returns true if some format recognises this file or folder.
bool recognises(const std::string& path);

// Returns true for names of files in a model folder that a save with this prefix replaces, of any format.
bool is_weight_file(const std::string& name, const std::string& prefix);

// Returns true if the path names one file, by an extension of Hugging Face and PyTorch, and not a folder.
bool names_a_file(const std::string& path);

// Returns "raw_files, hugging_face": those that are asked.
std::string asked_formats();

// Returns what a crash in the format is reported as.
std::string crash_text(const Format& format, const char* action, const std::string& path);

}  // namespace weft::checkpoint
