// A strategy of this rank: the table of its library, the handle that it created, and whether a step has
// failed.
#pragma once

#include <c10/util/ScopeExit.h>

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error_sink.hpp"
#include "plugin_call.hpp"
#include "weft/strategy.h"
#include "weft/unverified.hpp"

namespace weft {

// A function of a strategy: its name for messages, and whether it may begin collectives.
struct StrategyFunction {
  const char* name;
  bool may_communicate;
};
template <auto kSlot>
inline constexpr StrategyFunction kFunctionOf = {};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::configure> = {"configure", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::before_forward> = {"before_forward", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::after_forward> = {"after_forward", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::begin_backward> = {"begin_backward", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::before_backward> = {"before_backward",
                                                                                      true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::gradient_ready> = {"gradient_ready", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::after_backward> = {"after_backward", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::end_backward> = {"end_backward", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::run_step> = {"run_step", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::values_changed> = {"values_changed", true};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::publish> = {"publish", false};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::zero_gradients> = {"zero_gradients", false};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::merge_interval> = {"merge_interval", false};
template <>
inline constexpr StrategyFunction kFunctionOf<&weft_strategy_api::merge_replicas> = {"merge_replicas", true};

class Strategy {
 public:
  // Creates the strategy. `api` lives as long as the process. Throws the error that `create` returns.
  Strategy(const weft_strategy_api* api, const weft_strategy_arguments& arguments);
  ~Strategy();
  Strategy(const Strategy&) = delete;

  const weft_strategy_api& api() const { return *api_; }
  const std::string& name() const { return name_; }
  weft_strategy* handle() const { return handle_; }

  // Calls a function of the table and throws the error that it returns. Does nothing if the slot is null,
  // because the strategy does not subscribe to it.
  template <auto kSlot, class... Arguments>
  void call(Arguments... arguments) {
    constexpr StrategyFunction kFunction = kFunctionOf<kSlot>;
    static_assert(kFunction.name != nullptr, "name the function above");
    if (api_->*kSlot == nullptr) return;
    disturbed_ = true;
    ErrorSink error;
    weft_status status = WEFT_OK;
    {
      const PluginCall here(name_, kFunction.name, kFunction.may_communicate);
      status = (api_->*kSlot)(handle_, arguments..., error);
    }
    if (checks_contract()) throw_broken_contract();
    error.check(status, name_);
  }

  // Calls of hooks that were put off, in order.
  using KeptHooks = std::vector<std::function<void()>>;
  // Says to which backward the hooks belong that hook() calls from now on.
  void begin_pass(const weft_pass& pass) { pass_ = pass; }
  const weft_pass& pass() const { return pass_; }
  // Calls a backward hook, or puts the call off while keep_hooks() is in effect.
  template <auto kSlot, class Argument>
  void hook(Argument* argument, bool recomputes = false) {
    if (api_->*kSlot == nullptr) return;
    const auto now = [this, argument, recomputes] {
      weft_pass pass = pass_;
      pass.recomputes = recomputes;
      call<kSlot>(argument, &pass);
    };
    if (kept_ == nullptr) return now();
    kept_->push_back(now);
  }
  // Puts off the calls of backward hooks to `kept`, until it is called with null. While a CUDA graph is
  // captured no kernel runs, so there are no gradients yet that a strategy could reduce.
  void keep_hooks(KeptHooks* kept) { kept_ = kept; }
  bool keeps_hooks() const { return kept_ != nullptr; }

  // Runs `body`. If it throws after a hook was called or a collective was begun, the strategy cannot be used
  // any more, and later calls throw FAILED_PRECONDITION. A failure before that, as of a batch that is
  // refused, does no harm.
  template <class Body>
  auto guarded(const Body& body) {
    check_alive();
    const StepThread here;
    disturbed_ = false;
    try {
      return body();
    } catch (const UnverifiedError& error) {
      failure_ = error.what();
      is_whole_ = true;
      throw;
    } catch (...) {
      if (disturbed_) failure_ = text_of_current_exception();
      throw;
    }
  }
  // Runs `body`, which saves, also where a comparison ended the training and no collective was cut off. A
  // training that ended otherwise throws FAILED_PRECONDITION.
  template <class Body>
  void despite_comparison(const Body& body) {
    if (!is_whole_) check_alive();
    const auto restore =
        c10::make_scope_exit([&, failure = std::exchange(failure_, "")] { failure_ = failure; });
    body();
  }
  // Marks, inside `guarded`, that a failure from here on ends the training.
  void disturb() { disturbed_ = true; }
  // Ends the training: every later call throws FAILED_PRECONDITION with this text.
  void end(std::string failure) { failure_ = std::move(failure); }
  void check_alive() const;

 private:
  const weft_strategy_api* api_;
  std::string name_;
  weft_strategy* handle_ = nullptr;
  weft_pass pass_ = {};
  KeptHooks* kept_ = nullptr;
  bool disturbed_ = false;  // a hook was called or a collective begun since `guarded` began
  std::string failure_;     // text of the first failure; empty if there was none
  bool is_whole_ = false;   // the failure is one of a comparison
};

}  // namespace weft
