// The one symbol by which libweft takes the engine's table.
#include <nlohmann/json.hpp>

#include "application/objects.hpp"
#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "command/command.hpp"
#include "failure.hpp"
#include "host/engine_table.h"
#include "host/launch/early_exit.hpp"
#include "training/services.hpp"
#include "weft_build_id.h"

namespace {

weft_status command(weft_str verb, weft_str arguments, int32_t* exit_code, weft_error* error) {
  return weft::guarded(error, [&] {
    // The engine's own, which knows what the engine is doing.
    const weft::launch::ExitGuard until_done;
    try {
      *exit_code = weft::command::run(weft::view(verb),
                                      weft::parse_json(weft::view(arguments), "arguments of the command"));
    } catch (const std::exception& exception) {
      const weft::Failure failure = weft::describe(exception);
      throw weft::Error(failure.status, failure.text);
    }
  });
}

}  // namespace

extern "C" WEFT_EXPORT const weft_engine_table* weft_engine_v0() {
  static const weft_engine_table table = {sizeof(weft_engine_table),
                                          WEFT_STR(WEFT_BUILD_ID),
                                          WEFT_STR(WEFT_TORCH_TAG),
                                          &weft::training_services,
                                          &command,
                                          &weft::application::table()};
  return &table;
}
