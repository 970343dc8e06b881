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
  const std::vector<std::string> all = ranks.gather_text(outcome);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const std::string text = all[rank].substr(all[rank].find(' ') + 1);
    throw Error(std::stoi(all[rank]), outcome == all[rank] ? text : fmt::format("rank {}: {}", rank, text));
  }
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
