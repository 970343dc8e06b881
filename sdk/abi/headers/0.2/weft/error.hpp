// The exception of Weft's C++ code. It never crosses the ABI: the C functions return its status and text
// instead.
#pragma once

#include <stdexcept>
#include <string>

#include "types.h"

namespace weft {

// An error with a status code. `text` says who failed, what was found, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  Error(weft_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  weft_status status() const { return status_; }

 private:
  weft_status status_;
};

}  // namespace weft
