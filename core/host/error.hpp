// The implementation of weft_error. Converts exceptions to a status; no other code of the host does.
#pragma once

#include <weft/runtime.h>

#include <exception>
#include <string>
#include <string_view>
#include <weft/error.hpp>

struct weft_error {
  weft_status status = WEFT_OK;
  std::string text;
};

namespace weft {

// Writes the current exception to `error` and returns its status. Call it in a catch block only.
weft_status report_current_exception(weft_error* error) noexcept;

// Runs `body`. Returns WEFT_OK, or the status of the exception that it threw.
template <typename Body>
weft_status guarded(weft_error* error, Body&& body) noexcept {
  try {
    body();
    return WEFT_OK;
  } catch (...) {
    return report_current_exception(error);
  }
}

// Returns the text that the caller of a C function gave. Throws if it has a size and no data.
std::string_view text_argument(const char* function, weft_str text);
// Returns the text that the caller of a C function without a status gave, or a text that says that it has a
// size and no data.
std::string_view readable(weft_str text);

// Returns the name of a status, "WEFT_NOT_FOUND", or "status 99" for an unknown code.
std::string status_name(weft_status status);

}  // namespace weft
