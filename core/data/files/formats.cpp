#include "files/formats.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/text.hpp"
#include "host/launch/crash_note.hpp"
#include "log.hpp"
#include "plugins.hpp"

namespace weft::checkpoint {

namespace {

weft_loaded load_format(const std::string& wanted) try {
  return load_plugin("checkpoint_io", wanted);
} catch (const Error& error) {
  if (error.status() != WEFT_NOT_FOUND) throw;
  fail(WEFT_NOT_FOUND, "{}\nThe checkpoint formats here are {}", error.what(),
       fmt::join(provided_names("checkpoint_io"), ", "));
}

Format load(const std::string& wanted) {
  const weft_loaded loaded = load_format(wanted);
  const std::string asked = plugin_name(wanted);
  const std::string name(asked.empty() ? view(loaded.id) : std::string_view(asked));
  const auto& factory = plugin_factory<weft_checkpoint_io_factory>(loaded, WEFT_FACTORY_CHECKPOINT_IO);
  const weft_checkpoint_io* const io = factory.find(&factory, borrow(name));
  if (io == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "plugin {} {} has no checkpoint format \"{}\", which its manifest names",
         view(loaded.id), view(loaded.version), name);
  return {io, name, fmt::format("{} of {} {}", name, view(loaded.id), view(loaded.version)),
          plugin_identity(loaded)};
}

const Format* find_default() {
  try {
    return &format_named("");
  } catch (const Error&) {  // whoever needs it says so
    return nullptr;
  }
}

// Returns one format of each table: a table of several names is asked once, as the first of them.
std::vector<const Format*> load_all() {
  std::vector<const Format*> formats;
  for (const std::string& name : provided_names("checkpoint_io")) {
    try {
      const Format& format = format_named(name);
      const auto is_same = [&](const Format* other) { return other->io == format.io; };
      if (std::none_of(formats.begin(), formats.end(), is_same)) formats.push_back(&format);
    } catch (const Error& error) {
      log(WEFT_LOG_WARNING,
          fmt::format("checkpoint format {} is passed over, it cannot be loaded: {}", name, error.what()));
    }
  }
  std::stable_partition(formats.begin(), formats.end(), [](const Format* f) { return !is_default(*f); });
  return formats;
}

const std::vector<const Format*>& installed() {
  static const std::vector<const Format*> formats = load_all();
  return formats;
}

bool says_yes(const Format& format, const std::string& path) {
  const std::string text = crash_text(format, "was asked whether it reads", path);
  const CrashNote note(text.c_str());
  return format.io->recognises(format.io, borrow(path)) != 0;
}

}  // namespace

const Format& format_named(const std::string& wanted) {
  static std::mutex mutex;
  static auto* const loaded = new std::map<std::string, Format>;  // never destroyed, as their libraries
  const std::lock_guard lock(mutex);
  const auto found = loaded->find(wanted);
  return found != loaded->end() ? found->second : loaded->emplace(wanted, load(wanted)).first->second;
}

bool is_default(const Format& format) {
  const Format* const found = find_default();
  return found != nullptr && found->io == format.io;
}

const Format* find_format_of(const std::string& path, const std::string& wanted) {
  const Format* const chosen = wanted.empty() ? nullptr : &format_named(wanted);
  std::vector<const Format*> found;
  for (const Format* format : installed()) {
    // Another version of a format takes the place of the newest one.
    const bool is_chosen = chosen != nullptr && (format->io == chosen->io || format->name == chosen->name);
    const Format& asked = is_chosen ? *chosen : *format;
    if (says_yes(asked, path)) found.push_back(&asked);
  }
  if (found.size() <= 1) return found.empty() ? nullptr : found.front();
  if (std::find(found.begin(), found.end(), chosen) != found.end()) return chosen;
  fail(WEFT_INVALID_ARGUMENT,
       "{}: the checkpoint formats {} and {} both recognise it: name the one that reads it as checkpoint_io "
       "(--checkpoint-io {}), or leave one out with WEFT_PLUGIN_DISABLE",
       path, found[0]->label, found[1]->label, found[0]->name);
}

bool recognises(const std::string& path) {
  const auto& formats = installed();
  return std::any_of(formats.begin(), formats.end(), [&](const Format* f) { return says_yes(*f, path); });
}

bool is_weight_file(const std::string& name, const std::string& prefix) {
  const auto& formats = installed();
  return std::any_of(formats.begin(), formats.end(), [&](const Format* format) {
    return format->io->owns(format->io, borrow(name), borrow(prefix)) != 0;
  });
}

bool names_a_file(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  constexpr const char* kExtensions[] = {".safetensors", ".bin", ".pt", ".pth"};
  return std::find(std::begin(kExtensions), std::end(kExtensions), extension) != std::end(kExtensions) &&
         !std::filesystem::is_directory(path);
}

std::string asked_formats() {
  std::vector<std::string> names;
  for (const Format* format : installed()) names.push_back(format->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string crash_text(const Format& format, const char* action, const std::string& path) {
  return fmt::format(
      "checkpoint format {} crashed while it {} {}; leave its plugin out with "
      "WEFT_PLUGIN_DISABLE, or update it",
      format.label, action, path);
}

}  // namespace weft::checkpoint
