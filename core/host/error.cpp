#include "host/error.hpp"

#include <weft/runtime.h>

#include <array>
#include <new>

#include "base/text.hpp"

namespace weft {

weft_status report_current_exception(weft_error* error) noexcept {
  try {
    throw;
  } catch (const Error& exception) {
    weft_error_set(error, exception.status(), borrow(exception.what()));
    return exception.status();
  } catch (const std::bad_alloc&) {
    weft_error_set(error, WEFT_RESOURCE_EXHAUSTED, WEFT_STR("out of memory"));
    return WEFT_RESOURCE_EXHAUSTED;
  } catch (const std::exception& exception) {
    weft_error_set(error, WEFT_INTERNAL, borrow(exception.what()));
    return WEFT_INTERNAL;
  } catch (...) {
    weft_error_set(error, WEFT_INTERNAL, WEFT_STR("an exception of unknown type"));
    return WEFT_INTERNAL;
  }
}

std::string_view text_argument(const char* function, weft_str text) {
  if (text.data == nullptr && text.size > 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: a text of {} bytes has no data", function, text.size);
  return view(text);
}

std::string_view readable(weft_str text) {
  return text.data == nullptr && text.size > 0 ? "(a text without data)" : view(text);
}

std::string status_name(weft_status status) {
  constexpr std::array<const char*, 16> kNames = {"WEFT_OK",
                                                  "WEFT_CANCELLED",
                                                  "WEFT_UNKNOWN",
                                                  "WEFT_INVALID_ARGUMENT",
                                                  "WEFT_DEADLINE_EXCEEDED",
                                                  "WEFT_NOT_FOUND",
                                                  "WEFT_ALREADY_EXISTS",
                                                  "WEFT_PERMISSION_DENIED",
                                                  "WEFT_RESOURCE_EXHAUSTED",
                                                  "WEFT_FAILED_PRECONDITION",
                                                  "WEFT_ABORTED",
                                                  "WEFT_OUT_OF_RANGE",
                                                  "WEFT_UNIMPLEMENTED",
                                                  "WEFT_INTERNAL",
                                                  "WEFT_UNAVAILABLE",
                                                  "WEFT_DATA_LOSS"};
  if (status < 0 || status >= static_cast<weft_status>(kNames.size()))
    return fmt::format("status {}", status);
  return kNames[static_cast<size_t>(status)];
}

}  // namespace weft

extern "C" {

weft_error* weft_error_create(void) {
  return new (std::nothrow) weft_error;
}

void weft_error_destroy(weft_error* error) {
  delete error;
}

weft_status weft_error_status(const weft_error* error) {
  return error == nullptr ? WEFT_OK : error->status;
}

weft_str weft_error_text(const weft_error* error) {
  return error == nullptr ? weft_str{"", 0} : weft::borrow(error->text);
}

void weft_error_set(weft_error* error, weft_status status, weft_str text) {
  if (error == nullptr) return;
  error->status = status;
  try {
    error->text = weft::readable(text);
  } catch (...) {
    error->text.clear();  // out of memory: the status has to do
  }
}

}  // extern "C"
