#include "host/validate.hpp"

#include <cstring>
#include <functional>

#include "base/text.hpp"
#include "host/error.hpp"
#include "host/load_error.hpp"
#include "host/loader.hpp"
#include "host/tables.hpp"

namespace weft::host {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using Tell = std::function<void(const json& event)>;

class Report {
 public:
  explicit Report(const Tell& tell) : tell_(tell) {}
  void add(std::string_view name, bool passed, const std::string& text = "") {
    tell_({{"check", {{"name", name}, {"passed", passed}, {"text", text}}}});
  }
  // The stages up to the first that failed, or all stages.
  void add_stages(const LoadError* error) {
    for (int i = 0; i <= static_cast<int>(Stage::kRegister); ++i) {
      const Stage stage = static_cast<Stage>(i);
      const bool failed = error != nullptr && error->stage() == stage;
      add(stage_name(stage), !failed, failed ? error->what() : "");
      if (failed) return;
    }
  }

 private:
  const Tell& tell_;
};

// Sends a request that the plugin must refuse: with a status other than OK, and without changing the reply.
void expect_refusal(Report& report, const char* name, weft_plugin_query_fn query,
                    const weft_query_request& request, uint64_t reply_size = sizeof(weft_query_reply)) {
  weft_query_reply reply;
  std::memset(&reply, 0x5a, sizeof(reply));
  reply.struct_size = reply_size;
  const weft_query_reply before = reply;
  weft_error error;
  const weft_status status = query(&request, &reply, &error);
  if (status == WEFT_OK) {
    report.add(name, false, "it agreed");
  } else if (std::memcmp(&reply, &before, sizeof(reply)) != 0) {
    report.add(name, false, "it refused, but wrote into the reply");
  } else {
    report.add(name, true);
  }
}

void try_negotiation(Report& report, const LoadedLibrary& library, const Manifest& manifest,
                     const HostFacts& facts) {
  const weft_query_request good = make_request(facts, facts.torch_tag);
  weft_query_request request = good;
  request.abi_major = facts.abi.major + 1;
  expect_refusal(report, "refuses another major", library.query, request);
  if (manifest.abi.minor_min > 0) {
    request = good;
    request.abi_minor_min = request.abi_minor_max = manifest.abi.minor_min - 1;
    expect_refusal(report, "refuses a host that is too old", library.query, request);
  }
  request = good;
  request.abi_minor_min = manifest.abi.minor + 1;
  request.abi_minor_max = manifest.abi.minor + 2;
  expect_refusal(report, "refuses a host that is too new", library.query, request);
  for (const uint64_t size : {uint64_t{0}, uint64_t{8}}) {
    request = good;
    request.struct_size = size;
    expect_refusal(report, size == 0 ? "refuses an empty request" : "refuses a short request", library.query,
                   request);
    expect_refusal(report, size == 0 ? "refuses an empty reply" : "refuses a short reply", library.query,
                   good, size);
  }
  weft_query_reply reply = {};
  reply.struct_size = sizeof(reply);
  weft_error error;
  const bool again = library.query(&good, &reply, &error) == WEFT_OK && reply.plugin == library.plugin;
  report.add("answers the same when asked again", again);
}

void try_tables(Report& report, const LoadedLibrary& library) {
  const weft_plugin& plugin = *library.plugin;
  report.add("has no factory of an unknown id",
             plugin.get_factory(&plugin, WEFT_STR("weft.factory.none/1")) == nullptr);
  report.add("has no factory of the empty id", plugin.get_factory(&plugin, weft_str{nullptr, 0}) == nullptr);
  const std::string id = factory_id(library.kind);
  report.add("returns the same factory twice",
             plugin.get_factory(&plugin, borrow(id)) == plugin.get_factory(&plugin, borrow(id)));
  if (WEFT_HAS(&plugin, weft_plugin, get_extension)) {
    report.add("has no extension of an unknown id",
               plugin.get_extension(&plugin, WEFT_STR("weft.none/1")) == nullptr);
  }
}

void validate_library(const Installed& installed, const LibraryEntry& entry, const HostFacts& facts,
                      const Tell& tell) {
  const Candidate candidate = {&installed, &entry};
  const fs::path root = installed.folder.parent_path().parent_path();  // <root>/<id>/<version>/file
  tell({{"library",
         {{"file", candidate.path().string()},
          {"id", installed.id},
          {"version", installed.version},
          {"kind", entry.kind},
          {"provides", entry.provides},
          {"root", root.string()}}}});
  Report report(tell);
  try {
    const LoadedLibrary& library = load_library(candidate, root, facts);
    report.add_stages(nullptr);
    try_negotiation(report, library, *installed.manifest, facts);
    try_tables(report, library);
  } catch (const LoadError& error) {
    report.add_stages(&error);
  }
}

// Makes `file` absolute but keeps its links, which the loader judges. A link to a library from another folder
// stands for the library.
fs::path path_of(const fs::path& file) {
  std::error_code code;
  const fs::path target = fs::canonical(file, code);
  if (code) fail(WEFT_NOT_FOUND, "{}: {}", file.string(), code.message());
  fs::path path;
  for (const fs::path& part : fs::absolute(file)) {
    if (part == "..") path = fs::canonical(path).parent_path();
    if (!part.empty() && part != "." && part != "..") path /= part;
  }
  const bool is_in_place = fs::is_directory(path) || fs::exists(path.parent_path() / "plugin.json");
  return is_in_place ? path : target;
}

Installed read_installed(const fs::path& folder) {
  Installed installed;
  installed.manifest = read_manifest(folder / "plugin.json");
  installed.id = installed.manifest->id;
  installed.version = installed.manifest->version;
  const bool is_in_place =
      folder.filename() == installed.version && folder.parent_path().filename() == installed.id;
  installed.folder = is_in_place ? folder : fs::canonical(folder);
  return installed;
}

}  // namespace

void validate(const fs::path& file, const HostFacts& facts, const Tell& tell) {
  const fs::path path = path_of(file);
  const bool is_library = !fs::is_directory(path) && path.filename() != "plugin.json";
  const Installed installed = read_installed(fs::is_directory(path) ? path : path.parent_path());
  tell({{"warnings", installed.manifest->warnings}});
  bool found = false;
  for (const LibraryEntry& entry : installed.manifest->libraries) {
    if (is_library && path.filename() != entry.file) continue;
    found = true;
    validate_library(installed, entry, facts, tell);
  }
  if (!found)
    fail(WEFT_NOT_FOUND, "{} is not among the libraries of {}", path.string(),
         (installed.folder / "plugin.json").string());
}

}  // namespace weft::host
