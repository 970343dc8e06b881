#include "training/strategy.hpp"

#include "base/text.hpp"

namespace weft {

Strategy::Strategy(const weft_strategy_api* api, const weft_strategy_arguments& arguments)
    : api_(api), name_(view(arguments.name)) {
  ErrorSink error;
  const PluginCall here(name_, "create", false);
  error.check(api_->create(api_, &arguments, &handle_, error), name_);
  if (handle_ == nullptr) fail(WEFT_INTERNAL, "{}: create succeeded and returned no strategy", name_);
}

Strategy::~Strategy() {
  const PluginCall here(name_, "destroy", false);
  api_->destroy(handle_);
}

PluginCall Strategy::call_of(const void* slot) const {
  struct Function {
    const void* slot;
    const char* name;
    bool may_communicate;
  };
  const auto is = [](auto function) { return reinterpret_cast<const void*>(function); };
  // A function that stands in two places may do what either of them may.
  const Function functions[] = {{is(api_->configure), "configure", true},
                                {is(api_->before_forward), "before_forward", true},
                                {is(api_->after_forward), "after_forward", true},
                                {is(api_->begin_backward), "begin_backward", true},
                                {is(api_->end_backward), "end_backward", true},
                                {is(api_->before_backward), "before_backward", true},
                                {is(api_->gradient_ready), "gradient_ready", true},
                                {is(api_->after_backward), "after_backward", true},
                                {is(api_->run_step), "run_step", true},
                                {is(api_->values_changed), "values_changed", true},
                                {is(api_->publish), "publish", false},
                                {is(api_->zero_gradients), "zero_gradients", false}};
  for (const auto& [function, name, may_communicate] : functions)
    if (function == slot) return {name_, name, may_communicate};
  return {name_, "a function", true};
}

void Strategy::check_alive() const {
  if (!failure_.empty())
    fail(WEFT_FAILED_PRECONDITION,
         "{}: an earlier step failed ({}), so the state of this training is undefined; start from a "
         "checkpoint",
         name_, failure_);
}

}  // namespace weft
