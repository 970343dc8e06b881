#include "host/host_table.hpp"

#include "base/text.hpp"
#include "host/engine.hpp"
#include "host/error.hpp"
#include "host/log.hpp"

namespace weft::host {
namespace {

void log_of_plugin(uint32_t level, weft_str plugin_id, weft_str text) {
  log(level, readable(plugin_id), readable(text));
}

const void* get_extension(weft_str id) {
  const weft_engine_table* engine = engine_if_loaded();
  return engine == nullptr ? nullptr : engine->services(id);
}

constexpr weft_host kHost = {sizeof(weft_host), weft_error_set, log_of_plugin, get_extension};

}  // namespace

const weft_host& host_table() {
  return kHost;
}

}  // namespace weft::host
