// Calls through C tables: a sink for the text, and statuses as exceptions.
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>

#include "base/rank_failure.hpp"
#include "base/text.hpp"
#include "weft/error.hpp"
#include "weft/runtime.h"

namespace weft {

class ErrorSink {
 public:
  ErrorSink() : error_(weft_error_create()) {}
  ~ErrorSink() { weft_error_destroy(error_); }
  ErrorSink(const ErrorSink&) = delete;
  operator weft_error*() const { return error_; }

  // Throws the text of a failed call; `who` comes in front if it is not empty.
  void check(weft_status status, const std::string& who = "") const {
    if (status == WEFT_OK) return;
    std::string what(view(weft_error_text(error_)));
    if (what.empty()) what = fmt::format("the plugin returned status {} without a reason", status);
    if (who.empty() || without_culprit(what).starts_with(who)) throw Error(status, what);
    const std::string text = fmt::format("{}: {}", who, without_culprit(what));
    const auto culprit = culprit_of(what);  // another rank stays in front
    throw Error(status, culprit ? failure_of_rank(*culprit, text) : text);
  }

 private:
  weft_error* error_;
};

// Without the stack that libtorch appends to its texts, in two ways.
inline std::string_view text_of(const std::exception& e) {
  const std::string_view what = e.what();
  return what.substr(0, std::min(what.find("\nException raised from "), what.find("\nframe #0: ")));
}

// What messages call an exception of another kind.
inline constexpr std::string_view kNoStdException = "an exception that is no std::exception";

// Returns the text of the exception that is being handled.
inline std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& e) {
    return std::string(text_of(e));
  } catch (...) {
    return std::string(kNoStdException);
  }
}

// The inside of a table's function: no exception leaves it.
template <class Body>
weft_status guarded(weft_error* error, const Body& body) noexcept {
  const auto refuse = [&](weft_status status, std::string_view what) {
    weft_error_set(error, status, borrow(what));
    return status;
  };
  try {
    body();
    return WEFT_OK;
  } catch (const Error& e) {
    return refuse(e.status(), e.what());
  } catch (const std::exception& e) {
    return refuse(WEFT_INTERNAL, text_of(e));  // without a copy: memory may have run out
  } catch (...) {
    return refuse(WEFT_UNKNOWN, kNoStdException);
  }
}

}  // namespace weft
