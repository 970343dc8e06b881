#include "comm/collective_check.hpp"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <set>

#include "base/text.hpp"
#include "comm/group.hpp"
#include "host/launch/early_exit.hpp"
#include "plugin_call.hpp"

namespace weft::comm {
namespace {

std::atomic<int> checks = 0;

constexpr const char* kRule =
    "all ranks of a communicator must begin the same collectives, of the same sizes, in the same order";
constexpr uint32_t kPlaces = 64;  // of each rank in the store, which they use in turns

std::string key_of(const Communicator::Group& group, int rank, uint32_t number) {
  return fmt::format("begun/{}/{}/{}", group.name, rank, number % kPlaces);
}

// Returns what a rank has begun as this number; "" if it has not yet, or if it is far ahead.
std::string begun_by(const Communicator::Group& group, int rank, uint32_t number) {
  // Unlike get(), this does not wait for a key that is not there.
  const std::string text = group.rendezvous->store->compareSet(key_of(group, rank, number), "", ""),
                    mark = fmt::format("{} ", number);
  return text.starts_with(mark) ? text.substr(mark.size()) : "";
}

struct Running {
  std::mutex mutex;
  std::set<const InProgress*> all;
};

Running& running() {
  static auto* const made = new Running;  // never destroyed: threads of Gloo run until the end
  return *made;
}

std::terminate_handler handler_before = nullptr;

[[noreturn]] void on_terminate() {
  std::string text;
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {  // none of Gloo's
  }
  std::string names;
  {
    const std::lock_guard lock(running().mutex);
    for (const InProgress* work : running().all) names += (names.empty() ? "" : "; ") + work->text();
  }
  if (const std::string broken = take_broken_contract(); !broken.empty())
    launch::end_with_failure(WEFT_FAILED_PRECONDITION, broken);
  if (!names.empty() && text.find("gloo/") != std::string::npos)
    launch::end_with_failure(WEFT_INTERNAL,
                             fmt::format("{}: another rank sent a message of another size ({}); {}", names,
                                         what_happened(text, {}), kRule));
  if (handler_before != nullptr) handler_before();
  std::abort();
}

}  // namespace

CollectiveCheck::CollectiveCheck() {
  ++checks;
}

CollectiveCheck::~CollectiveCheck() {
  --checks;
}

void compare_collective(const Communicator::Group& group, uint32_t number, const std::string& operation,
                        int64_t bytes) {
  if ((checks == 0 && !checks_contract()) || PluginCall::of_thread() == nullptr) return;
  // Ranks may give one another parts of different sizes in an all_to_all.
  const std::string what =
      operation == "all_to_all" ? operation : fmt::format("{} of {} bytes", operation, bytes);
  group.rendezvous->store->set(key_of(group, group.rank, number), fmt::format("{} {}", number, what));
  const int size = group.size(), before = (group.rank + size - 1) % size, after = (group.rank + 1) % size;
  for (const int rank : {before, after}) {
    const std::string other = begun_by(group, rank, number);
    if (!other.empty() && other != what)
      fail(WEFT_INTERNAL, "{}: {} begins {} as collective {} of this communicator, but rank {} begins {}; {}",
           PluginCall::text_of_thread(), group.who(), what, number, rank, other, kRule);
    if (before == after) break;
  }
}

InProgress::InProgress(const Communicator::Group& group, const std::string& operation, int64_t bytes)
    : group_(group), operation_(operation), bytes_(bytes), caller_(PluginCall::text_of_thread()) {
  const std::lock_guard lock(running().mutex);
  running().all.insert(this);
}

InProgress::~InProgress() {
  const std::lock_guard lock(running().mutex);
  running().all.erase(this);
}

std::string InProgress::text() const {
  return fmt::format("{}{}{}: {} of {} bytes", caller_, caller_.empty() ? "" : ": ", group_.who(), operation_,
                     bytes_);
}

void name_collectives_at_the_end() {
  static const bool once = [] {
    handler_before = std::set_terminate(on_terminate);
    return true;
  }();
  (void)once;
}

}  // namespace weft::comm
