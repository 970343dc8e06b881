// What a library appends through a sink of the C ABI.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "weft/types.h"

namespace weft {

// Collects values. No exception may pass through the frames of a library, so the first one is kept.
template <class Values>
class Appended {
 public:
  template <class Append>
  void add(const Append& append) noexcept {
    try {
      if (!failure_) append(values_);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  // Returns the values, or throws what was kept.
  Values take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(values_);
  }

 private:
  Values values_;
  std::exception_ptr failure_;
};

using AppendedText = Appended<std::string>;

// Returns a sink that appends to `text`, which must outlive it.
inline weft_text_sink sink_of(AppendedText& text) {
  return {&text, [](void* context, weft_str value) {
            static_cast<AppendedText*>(context)->add([&](std::string& all) { all += view(value); });
          }};
}

}  // namespace weft
