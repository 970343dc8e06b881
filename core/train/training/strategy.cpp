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

void Strategy::check_alive() const {
  if (!failure_.empty())
    fail(WEFT_FAILED_PRECONDITION,
         "{}: an earlier step failed ({}), so the state of this training is undefined; start from a "
         "checkpoint",
         name_, failure_);
}

}  // namespace weft
