#include "checkpoint/outcome.hpp"

#include <exception>

#include "base/text.hpp"

namespace weft::checkpoint {

void on_every_rank(const Communicator& ranks, const std::function<void()>& action) {
  if (ranks.size() == 1) return action();
  std::string outcome;
  try {
    action();
  } catch (const Error& e) {
    outcome = fmt::format("{} {}", e.status(), e.what());
  } catch (const std::exception& e) {
    outcome = fmt::format("{} {}", WEFT_INTERNAL, e.what());
  }
  for (const std::string& failure : ranks.gather_text(outcome))
    if (!failure.empty()) throw Error(std::stoi(failure), failure.substr(failure.find(' ') + 1));
}

void on_master(const Communicator& ranks, const std::function<void()>& action) {
  on_every_rank(ranks, [&] {
    if (ranks.rank() == 0) action();
  });
}

void Deferred::run(const std::function<void()>& action) {
  if (failure_ != nullptr) return;
  try {
    action();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Deferred::rethrow() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

}  // namespace weft::checkpoint
