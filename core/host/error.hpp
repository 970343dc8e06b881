// The error sink behind weft_error, and the one place where exceptions become a status.
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

// Tells `error` about the exception in flight and returns its status. Call it in a catch block only.
weft_status report_current_exception(weft_error* error) noexcept;

// Runs `body` and returns WEFT_OK, or the status of what it threw.
template <typename Body>
weft_status guarded(weft_error* error, Body&& body) noexcept {
  try {
    body();
    return WEFT_OK;
  } catch (...) {
    return report_current_exception(error);
  }
}

// "WEFT_NOT_FOUND"; for codes without a name, "status 99".
std::string status_name(weft_status status);

}  // namespace weft
