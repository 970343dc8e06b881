// The functions of weft/booster.h, weft/generation.h and weft/tensor.h. They load the engine and forward to
// it.
#include <type_traits>

#include "host/application_functions.h"
#include "host/engine.hpp"
#include "host/error.hpp"

namespace {

const weft_application_table* application_of(const weft_engine_table& engine) {
  if (!WEFT_HAS(&engine, weft_engine_table, application))
    throw weft::Error(WEFT_UNIMPLEMENTED, "the engine has no application interface; install Weft whole");
  return engine.application;
}

// Throws if one of the arguments is a text with a size and no data.
template <class... Arguments>
void check_texts(const char* function, const Arguments&... arguments) {
  const auto check = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, weft_str>)
      weft::text_argument(function, argument);
  };
  (check(arguments), ...);
}

}  // namespace

#define WEFT_UNPACK(...) __VA_ARGS__
#define WEFT_FORWARD(name, parameters, arguments)                               \
  weft_status name parameters {                                                 \
    const weft_application_table* table = nullptr;                              \
    const weft_status opened = weft::guarded(error, [&] {                       \
      check_texts(#name, WEFT_UNPACK arguments);                                \
      table = application_of(weft::host::load_engine(weft::host::this_host())); \
    });                                                                         \
    return opened == WEFT_OK ? table->name arguments : opened;                  \
  }
// If the engine is not loaded, there is no object to destroy.
#define WEFT_FORWARD_DESTROY(name, type)                                                  \
  void name(type* object) {                                                               \
    if (object != nullptr) application_of(*weft::host::engine_if_loaded())->name(object); \
  }

extern "C" {
WEFT_APPLICATION_STATUS_FUNCTIONS(WEFT_FORWARD)
WEFT_APPLICATION_DESTROY_FUNCTIONS(WEFT_FORWARD_DESTROY)
}
