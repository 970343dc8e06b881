#include "new_plugin.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/search.hpp"
#include "base/text.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

// What a template calls its plugin, in names of files and in texts.
constexpr const char* kName = "template_name";
constexpr const char* kClass = "TemplateName";

struct Wanted {
  std::string kind, name, folder;
};

// Returns the folder of which this program is bin/weft.
fs::path prefix() {
  return fs::canonical("/proc/self/exe").parent_path().parent_path();
}

fs::path templates() {
  const fs::path folder = prefix() / "share/weft/templates";
  std::error_code code;
  if (!fs::is_directory(folder, code)) {
    fail(WEFT_NOT_FOUND, "the templates of plugins should be in {}, which is not there; install Weft whole",
         folder.string());
  }
  return folder;
}

std::vector<std::string> kinds(const fs::path& folder) {
  std::vector<std::string> kinds;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) kinds.push_back(entry.path().filename().string());
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

// The name becomes an id, a part of names of files, and of the name of a class.
void check_name(const std::string& name) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_plain = [&](char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (!name.empty() && name.size() <= 64 && is_lower(name[0]) &&
      std::all_of(name.begin(), name.end(), is_plain))
    return;
  fail(WEFT_INVALID_ARGUMENT,
       "the name is \"{}\", must have 1 to 64 lower-case letters, digits and _, and begin with a letter",
       printable(name));
}

// Returns "LateSum" for "late_sum".
std::string class_name(const std::string& name) {
  std::string text;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') text += begins && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
    begins = c == '_';
  }
  return text;
}

std::string named(std::string text, const std::string& name) {
  replace_all(text, kName, name);
  replace_all(text, kClass, class_name(name));
  return text;
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(WEFT_UNAVAILABLE, "cannot write {}: {}", path.string(), std::strerror(errno));
}

// Copies a template to `to`, and returns how many files it has.
size_t copy_template(const fs::path& from, const fs::path& to, const std::string& name) {
  size_t count = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
    const fs::path path = to / named(fs::relative(entry.path(), from).string(), name);
    if (entry.is_directory()) {
      fs::create_directory(path);
      continue;
    }
    write_file(path, named(read_file(entry.path(), 1 << 20), name));
    ++count;
  }
  return count;
}

// Makes the folder beside its place, so that it appears whole or not at all.
size_t make_folder(const fs::path& from, const fs::path& folder, const std::string& name) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(folder, code)) &&
      !(fs::is_directory(folder, code) && fs::is_empty(folder, code))) {
    fail(WEFT_ALREADY_EXISTS, "{} is there already; give a folder that is new or empty", folder.string());
  }
  const fs::path parent = folder.parent_path();
  fs::create_directories(parent, code);
  std::string temporary = (parent / ("." + folder.filename().string() + ".XXXXXX")).string();
  if (mkdtemp(temporary.data()) == nullptr)
    fail(WEFT_UNAVAILABLE, "cannot create a folder in {}: {}", parent.string(), std::strerror(errno));
  try {
    const size_t count = copy_template(from, temporary, name);
    fs::permissions(temporary, fs::perms(0755));
    fs::rename(temporary, folder);
    return count;
  } catch (...) {
    fs::remove_all(temporary, code);
    throw;
  }
}

void begin(const Wanted& wanted) {
  const fs::path all = templates();
  const std::vector<std::string> known = kinds(all);
  if (std::find(known.begin(), known.end(), wanted.kind) == known.end()) {
    fail(WEFT_NOT_FOUND, "there is no template of kind \"{}\"{}\nKinds: {}", printable(wanted.kind),
         did_you_mean(wanted.kind, known), fmt::join(known, ", "));
  }
  check_name(wanted.name);
  const std::string shown = wanted.folder.empty() ? wanted.name : wanted.folder;
  fs::path folder = fs::absolute(shown).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const size_t count = make_folder(all / wanted.kind, folder, wanted.name);
  std::error_code code;
  const bool is_installed = fs::exists(prefix() / "lib/cmake/weft/weftConfig.cmake", code);
  std::printf(
      "%s has %zu files, begin with README.md. Build and test it:\n"
      "  cmake -S %s -B %s/build -DCMAKE_PREFIX_PATH=%s\n"
      "  cmake --build %s/build && ctest --test-dir %s/build --output-on-failure\n",
      shown.c_str(), count, shown.c_str(), shown.c_str(),
      is_installed ? prefix().c_str() : "PREFIX  # of cmake --install", shown.c_str(), shown.c_str());
}

}  // namespace

void add_new_plugin(CLI::App& plugins) {
  CLI::App* verb = plugins.add_subcommand("new", "Begin a plugin: write a folder that builds and tests one");
  const auto wanted = std::make_shared<Wanted>();
  verb->add_option("KIND", wanted->kind,
                   "strategy, policy, model, operation, checkpoint_io, tokenizer, data, objective or hook")
      ->required();
  verb->add_option("NAME", wanted->name, "Name of the plugin, such as late_sum")->required();
  verb->add_option("FOLDER", wanted->folder, "Folder to write, new or empty; default: NAME");
  verb->footer("Example: weft plugins new strategy late_sum");
  verb->callback([wanted] { begin(*wanted); });
}

}  // namespace weft::cli
