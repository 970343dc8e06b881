#include "host/command.h"

#include "base/text.hpp"
#include "host/engine.hpp"
#include "host/error.hpp"
#include "host/listing.hpp"
#include "host/log.hpp"
#include "host/plugin_folder.hpp"
#include "host/runtime.hpp"
#include "host/validate.hpp"

using namespace weft;

extern "C" {

weft_status weft_command(weft_str verb, weft_str arguments, int32_t* exit_code, weft_error* error) {
  weft_status status = WEFT_OK;
  const weft_status opened = guarded(error, [&] {
    host::check_log_level();
    const weft_engine_table& engine = host::load_engine(host::this_host());
    if (!WEFT_HAS(&engine, weft_engine_table, command)) {
      fail(WEFT_UNIMPLEMENTED, "the engine has no verb \"{}\"", view(verb));
    }
    status = engine.command(verb, arguments, exit_code, error);
  });
  return opened != WEFT_OK ? opened : status;
}

weft_status weft_plugins_doctor(weft_runtime* runtime, weft_str* own, weft_error* error) {
  return guarded(error,
                 [&] { *own = host::own_text(host::make_listing(runtime->scan(), runtime->facts, true)); });
}

weft_status weft_plugins_validate(weft_str file, void (*tell)(void* to, weft_str event), void* to,
                                  weft_error* error) {
  return guarded(error, [&] {
    host::validate(std::string(view(file)), host::this_host(), [&](const nlohmann::json& event) {
      const std::string text = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      tell(to, borrow(text));
    });
  });
}

weft_status weft_plugins_install(weft_runtime* runtime, weft_str source, weft_str* own, weft_error* error) {
  return guarded(error, [&] {
    *own = host::own_text(host::install_plugin(runtime->paths(), runtime->facts, std::string(view(source))));
  });
}

weft_status weft_plugins_remove(weft_runtime* runtime, weft_str name, weft_str* own, weft_error* error) {
  return guarded(error, [&] { *own = host::own_text(host::remove_plugin(runtime->paths(), view(name))); });
}

weft_status weft_plugins_pin(weft_runtime* runtime, weft_str name, weft_str* own, weft_error* error) {
  return guarded(error, [&] { *own = host::own_text(host::pin_plugin(runtime->paths(), view(name))); });
}

weft_status weft_plugins_unpin(weft_runtime* runtime, weft_str name, weft_str* own, weft_error* error) {
  return guarded(error, [&] { *own = host::own_text(host::unpin_plugin(runtime->paths(), view(name))); });
}

}  // extern "C"
