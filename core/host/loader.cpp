#include "host/loader.hpp"

#include <deque>
#include <mutex>

#include "base/dynamic_library.hpp"
#include "base/text.hpp"
#include "host/elf_file.hpp"
#include "host/engine.hpp"
#include "host/error.hpp"
#include "host/host_table.hpp"
#include "host/inspect.hpp"
#include "host/load_error.hpp"
#include "host/load_guard.hpp"
#include "host/log.hpp"
#include "host/tables.hpp"

namespace weft::host {
namespace {

struct Registry {
  std::recursive_mutex mutex;       // the init of a plugin may load another
  std::deque<LoadedLibrary> tried;  // also libraries that failed, whose code stays mapped
  std::vector<const LoadedLibrary*> libraries;
};

Registry& registry() {
  static Registry* registry = new Registry;  // never destroyed: see DynamicLibrary
  return *registry;
}

void load_engine_for(const LibraryEntry& library, const HostFacts& facts) {
  check_torch(library, view(load_engine(facts).torch_tag), "this process");
}

// Opens the libraries of libtorch that `path` needs and this process has not loaded, from the folder of those
// that it has. A plugin has no search path of its own, and the engine's would load them for every process.
void open_torch_libraries(const std::filesystem::path& path) {
  const std::vector<std::string> loaded = mapped_libraries("libtorch_cpu");
  if (loaded.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(loaded.front()).parent_path();
  for (const std::string& needed : read_elf(path).needed) {
    const bool is_torch = needed.starts_with("libtorch") || needed.starts_with("libc10");
    std::error_code code;
    if (!is_torch || !mapped_libraries(needed.substr(0, needed.find(".so"))).empty() ||
        !std::filesystem::exists(folder / needed, code))
      continue;
    try {
      DynamicLibrary(folder / needed);
    } catch (const std::exception& error) {
      throw LoadError(Stage::kDlopen, WEFT_FAILED_PRECONDITION,
                      fmt::format("the system cannot load {}, which it needs: {}; install what is missing "
                                  "(NVIDIA's libraries: packaging/bootstrap cuda), `ldd {}` shows all of it",
                                  needed, error.what(), (folder / needed).string()));
    }
  }
}

weft_plugin_query_fn open_library(const std::filesystem::path& path) {
  void* symbol = nullptr;
  try {
    symbol = DynamicLibrary(path).find(WEFT_QUERY_SYMBOL);
  } catch (const std::exception& error) {
    throw LoadError(Stage::kDlopen, WEFT_FAILED_PRECONDITION,
                    fmt::format("the system cannot load it: {}; `ldd -r {}` shows what it misses",
                                error.what(), path.string()));
  }
  if (symbol == nullptr) {
    throw LoadError(Stage::kEntry, WEFT_FAILED_PRECONDITION,
                    fmt::format("it does not export {}; is there a WEFT_DEFINE_PLUGIN in its sources?",
                                WEFT_QUERY_SYMBOL));
  }
  return reinterpret_cast<weft_plugin_query_fn>(symbol);
}

void start(const weft_plugin& plugin) {
  if (!WEFT_HAS(&plugin, weft_plugin, init)) return;
  weft_error error;
  const weft_status status = plugin.init(&plugin, &host_table(), &error);
  if (status == WEFT_OK) return;
  throw LoadError(Stage::kInit, status,
                  fmt::format("its init failed: {}", error.text.empty() ? status_name(status) : error.text));
}

void check_names_are_free(const LoadedLibrary& library) {
  for (const LoadedLibrary* other : registry().libraries) {
    if (other->kind != library.kind || other->id == library.id) continue;
    for (const std::string& name : library.provides) {
      if (std::find(other->provides.begin(), other->provides.end(), name) == other->provides.end()) continue;
      throw LoadError(
          Stage::kRegister, WEFT_ALREADY_EXISTS,
          fmt::format("{} \"{}\" is provided by {} {} already ({}); leave one out with WEFT_PLUGIN_DISABLE",
                      library.kind, name, other->id, other->version, other->path));
    }
  }
}

LoadedLibrary& make_library(const Candidate& candidate, const std::filesystem::path& path) {
  const LibraryEntry& entry = *candidate.library;
  LoadedLibrary& library = registry().tried.emplace_back();
  library.id = candidate.manifest().id;
  library.version = candidate.manifest().version;
  library.kind = entry.kind;
  library.path = path.string();
  library.digest = entry.sha256;
  library.manifest = candidate.manifest().text;
  library.provides = entry.provides;
  library.tier = entry.tier;
  return library;
}

// Runs the stages after inspection and fills `library`.
void bring_up(LoadedLibrary& library, const Candidate& candidate, const HostFacts& facts) {
  const bool uses_torch = candidate.library->tier != WEFT_TIER_C;
  std::string torch_tag;
  if (uses_torch) load_engine_for(*candidate.library, facts);
  if (const weft_engine_table* engine = engine_if_loaded()) torch_tag = view(engine->torch_tag);

  if (uses_torch) open_torch_libraries(library.path);
  LoadGuard guard(library);
  guard.enter("the opening");
  library.query = open_library(library.path);
  const weft_query_request request = make_request(facts, torch_tag);
  guard.enter("the query");
  const weft_query_reply reply = negotiate(library.query, request, candidate.manifest(), *candidate.library);
  guard.enter("the tables");
  check_tables(reply.plugin, *candidate.library);
  library.plugin = reply.plugin;
  library.abi_minor = reply.abi_minor;
  check_one_torch(uses_torch);
  check_names_are_free(library);
  guard.enter("the init");
  start(*library.plugin);
}

}  // namespace

void check_one_torch(bool is_needed) {
  for (const char* stem : {"libtorch_cpu", "libc10"}) {
    const std::vector<std::string> found = mapped_libraries(stem);
    if (found.size() > 1) {
      throw LoadError(
          Stage::kDoubleTorch, WEFT_FAILED_PRECONDITION,
          fmt::format("there are {} {} in this process: {}; a library brought its own, link it against the "
                      "libtorch of this Weft",
                      found.size(), stem, fmt::join(found, ", ")));
    }
    if (found.empty() && is_needed) {
      throw LoadError(
          Stage::kDoubleTorch, WEFT_FAILED_PRECONDITION,
          fmt::format("there is no {} in this process, though its tier needs one; install Weft again", stem));
    }
  }
}

const LoadedLibrary& load_library(const Candidate& candidate, const std::filesystem::path& root,
                                  const HostFacts& facts) {
  const std::lock_guard lock(registry().mutex);
  std::error_code code;
  const std::filesystem::path path = std::filesystem::canonical(candidate.path(), code);
  if (!code) {
    for (const LoadedLibrary* library : registry().libraries) {
      if (library->path == path) return *library;
    }
  }
  inspect(candidate, root, facts);
  LoadedLibrary& library = make_library(candidate, path);
  try {
    bring_up(library, candidate, facts);
  } catch (const LoadError&) {
    throw;
  } catch (const std::exception& error) {
    throw LoadError(
        Stage::kNegotiate, WEFT_INTERNAL,
        fmt::format("it threw a C++ exception, which must not leave a plugin: {}", printable(error.what())));
  }
  registry().libraries.push_back(&library);
  for (const std::string& warning : candidate.manifest().warnings) log(WEFT_LOG_WARNING, library.id, warning);
  return library;
}

std::vector<const LoadedLibrary*> loaded_libraries() {
  const std::lock_guard lock(registry().mutex);
  return registry().libraries;
}

}  // namespace weft::host
