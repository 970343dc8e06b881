#include "host/runtime.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/json.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "host/error.hpp"
#include "host/listing.hpp"
#include "host/log.hpp"
#include "host/resolve.hpp"

namespace weft::host {
namespace {

using nlohmann::json;

void check_pointer(const void* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) fail(WEFT_INVALID_ARGUMENT, "{}: {} is null", function, argument);
}

std::unique_ptr<weft_runtime> make_runtime(std::string_view options) {
  constexpr const char* kWho = "weft_runtime_create: the options";
  check_log_level();
  auto runtime = std::make_unique<weft_runtime>();
  runtime->facts = this_host();
  if (trim(options).empty()) return runtime;
  const json object = parse_json(options, kWho);
  if (!object.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{} are {}, must be an object", kWho, json_kind(object));
  for (const auto& [key, value] : object.items()) {
    const bool is_paths =
        key == "plugin_paths" && value.is_array() &&
        std::all_of(value.begin(), value.end(), [](const json& path) { return path.is_string(); });
    if (is_paths) {
      runtime->plugin_paths = value.get<std::vector<std::string>>();
    } else if (key == "safe_mode" && value.is_boolean()) {
      runtime->safe_mode = value.get<bool>();
    } else if (key == "plugin_paths" || key == "safe_mode") {
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is {}, must be {}", kWho, key, json_kind(value),
           key == "safe_mode" ? "true or false" : "an array of texts");
    } else {
      fail(WEFT_INVALID_ARGUMENT, "{} have an unknown key \"{}\"{} Keys: plugin_paths, safe_mode", kWho,
           printable(key), did_you_mean(key, {"plugin_paths", "safe_mode"}));
    }
  }
  runtime->paths();  // reports wrong ones now
  return runtime;
}

}  // namespace

weft_str own_text(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return {copy, text.size()};
}

}  // namespace weft::host

using namespace weft;

host::SearchPaths weft_runtime::paths() const {
  return host::find_search_paths(plugin_paths, safe_mode, facts.plugins);
}

host::Catalogue weft_runtime::scan() const {
  host::Catalogue catalogue = host::scan(paths());
  const std::lock_guard lock(mutex_);
  catalogue.bound = bound_;
  return catalogue;
}

const host::LoadedLibrary& weft_runtime::load(std::string_view kind, std::string_view name,
                                              std::string_view version) {
  const host::LoadedLibrary& library = host::resolve(scan(), facts, kind, name, version);
  if (version.empty() && host::split_name(name).version.empty()) return library;
  const std::lock_guard lock(mutex_);
  bound_[library.id] = host::VersionRequest::exactly(library.version);
  return library;
}

extern "C" {

weft_str weft_version(void) {
  return WEFT_STR(WEFT_VERSION);
}

void weft_log(uint32_t level, weft_str from, weft_str text) {
  host::log(level, readable(from), readable(text));
}

weft_status weft_runtime_create(weft_str options, weft_runtime** own, weft_error* error) {
  return guarded(error, [&] {
    host::check_pointer(own, "weft_runtime_create", "own");
    *own = host::make_runtime(text_argument("weft_runtime_create", options)).release();
  });
}

void weft_runtime_destroy(weft_runtime* runtime) {
  delete runtime;
}

weft_status weft_runtime_load(weft_runtime* runtime, weft_str kind, weft_str name, weft_str version,
                              weft_loaded* out, weft_error* error) {
  return guarded(error, [&] {
    host::check_pointer(runtime, "weft_runtime_load", "runtime");
    host::check_pointer(out, "weft_runtime_load", "out");
    require_size("weft_runtime_load: out", out->struct_size);
    const auto text = [](weft_str given) { return text_argument("weft_runtime_load", given); };
    const host::LoadedLibrary& library = runtime->load(text(kind), text(name), text(version));
    const weft_loaded loaded = {sizeof(weft_loaded),     library.plugin,           borrow(library.id),
                                borrow(library.version), borrow(library.kind),     borrow(library.path),
                                borrow(library.digest),  borrow(library.manifest), library.tier,
                                library.abi_minor};
    fill_out("weft_runtime_load: out", loaded, out);
  });
}

weft_status weft_runtime_list(weft_runtime* runtime, weft_str* own, weft_error* error) {
  return guarded(error, [&] {
    host::check_pointer(runtime, "weft_runtime_list", "runtime");
    host::check_pointer(own, "weft_runtime_list", "own");
    *own = host::own_text(host::make_listing(runtime->scan(), runtime->facts, false));
  });
}

void weft_text_destroy(weft_str text) {
  delete[] text.data;
}

}  // extern "C"
