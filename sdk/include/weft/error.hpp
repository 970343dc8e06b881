// The exception of Weft's C++ code, on both sides of the ABI. It never crosses: tables carry its status and text.
#pragma once

#include <stdexcept>
#include <string>

#include "types.h"

namespace weft {

// `text` says who, what was found, what was wanted and what to do.
class Error : public std::runtime_error {
 public:
  Error(weft_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  weft_status status() const { return status_; }

 private:
  weft_status status_;
};

}  // namespace weft
