// What a failed comparison of a training step throws.
#pragma once

#include <string>
#include <utility>

#include "weft/error.hpp"

namespace weft {

// A comparison (BoosterOptions::check_agreement) found that the strategy did something else than it must, or
// that ranks differ. Every rank throws it, with the status INTERNAL. The training has ended, but it can still
// be saved with SaveOptions::unverified, so that the work of the steps before is not lost.
class UnverifiedError : public Error {
 public:
  explicit UnverifiedError(const std::string& text) : Error(WEFT_INTERNAL, text) {}
};

// Runs a comparison, which fails on every rank alike. Throws UnverifiedError for what it finds, and other
// errors as they are.
template <class Body>
void verify(Body&& compare) {
  try {
    std::forward<Body>(compare)();
  } catch (const Error& error) {
    if (error.status() != WEFT_INTERNAL) throw;
    throw UnverifiedError(error.what());
  }
}

}  // namespace weft
