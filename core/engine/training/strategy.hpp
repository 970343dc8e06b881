// A strategy at work: the table of its library, what it made for this rank, and whether it can still be used.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "error_sink.hpp"
#include "weft/strategy.h"

namespace weft {

class Strategy {
 public:
  // `api` lives as long as the process. Throws what the table's `create` refuses.
  Strategy(const weft_strategy_api* api, std::string name, const weft_strategy_arguments& arguments);
  ~Strategy() { api_->destroy(handle_); }
  Strategy(const Strategy&) = delete;

  const weft_strategy_api& api() const { return *api_; }
  const std::string& name() const { return name_; }
  weft_strategy* handle() const { return handle_; }

  // Calls a slot of the table and throws the error that it returns. A null slot is not subscribed: nothing
  // happens.
  template <class Slot, class... Arguments>
  void call(Slot slot, Arguments... arguments) {
    if (slot == nullptr) return;
    disturbed_ = true;
    ErrorSink error;
    error.check(slot(handle_, arguments..., error), name_);
  }

  // Runs `body`. If it throws, the strategy can be used no more, unless nothing had happened yet that the
  // strategy or other ranks know of: a batch that is refused does no harm. Throws FAILED_PRECONDITION after
  // an earlier failure.
  template <class Body>
  auto guarded(const Body& body) {
    check_alive();
    disturbed_ = false;
    try {
      return body();
    } catch (const std::exception& e) {
      if (disturbed_) failure_ = e.what();
      throw;
    } catch (...) {
      if (disturbed_) failure_ = "an exception that is no std::exception";
      throw;
    }
  }
  // Says inside of `guarded` that a failure from here on ends the training.
  void disturb() { disturbed_ = true; }
  void check_alive() const;

 private:
  const weft_strategy_api* api_;
  std::string name_;
  weft_strategy* handle_ = nullptr;
  bool disturbed_ = false;  // since `guarded` began, a slot was called or a collective begun
  std::string failure_;     // of the first step that failed
};

}  // namespace weft
