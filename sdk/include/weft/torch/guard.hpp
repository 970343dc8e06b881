// Runs functions of a plugin in C++ behind the C functions of its table, through which no exception may pass.
#pragma once

#ifndef WEFT_TORCH_MIN
#include <c10/util/Exception.h>
#endif

#include <exception>
#include <utility>

#include "host_tables.hpp"

namespace weft::plugin {
inline namespace v0 {

// Runs the body of a C function. Returns the status of an exception, whose text it writes to `error`.
template <class Body>
weft_status guard(weft_error* error, const Body& body) noexcept {
  weft_error* const outer = std::exchange(current_error, error);
  weft_status status = WEFT_OK;
  const auto fail = [&](weft_status code, const char* what) {
    status = code;
    host.host->error_set(error, code, str(what));
  };
  try {
    body();
  } catch (const HostFailure& failure) {
    status = failure.status;
  } catch (const Error& failure) {
    fail(failure.status(), failure.what());
#ifndef WEFT_TORCH_MIN
  } catch (const c10::Error& failure) {
    fail(WEFT_INTERNAL, failure.what_without_backtrace());
#endif
  } catch (const std::exception& failure) {
    fail(WEFT_INTERNAL, failure.what());
  } catch (...) {
    fail(WEFT_UNKNOWN, "an exception that is no std::exception");
  }
  current_error = outer;
  return status;
}

}  // namespace v0
}  // namespace weft::plugin
