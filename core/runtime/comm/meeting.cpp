#include "comm/meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/duration.hpp"
#include "base/host_name.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "comm/find_address.hpp"
#include "comm/group.hpp"
#include "host/launch/activity.hpp"

namespace weft::comm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto kSilence = 10s;       // before the first message about missing ranks
constexpr auto kBetweenWords = 60s;  // between two such messages
constexpr auto kRetry = 200ms;
constexpr auto kConnect = 3s;
constexpr auto kLook = 1s;  // between two looks for missing ranks
constexpr const char* kNumHere = "launch/here";

// Returns "ranks 1 and 2", and the numbers of their hosts if there are several hosts with equally many ranks.
std::string places_text(const std::vector<int>& ranks, const Job& job) {
  if (job.local_size < 1 || job.local_size >= job.size || job.size % job.local_size != 0)
    return ranks_text(ranks);
  std::vector<int> hosts;
  for (const int rank : ranks) hosts.push_back(rank / job.local_size + 1);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return fmt::format("{} (of host {} of {})", ranks_text(ranks), fmt::join(hosts, ", "),
                     job.size / job.local_size);
}

}  // namespace

std::string rank_key(int rank) {
  return fmt::format("launch/rank/{}", rank);
}

void require_same(c10d::Store& store, const std::string& who, const std::string& key,
                  const std::string& value) {
  const std::string first = store.compareSet(key, "", value);
  if (first == value) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: this rank gives {}, another one {}; all must give the same", who, value,
       first);
}

Meeting::Meeting(const Job& job, milliseconds timeout)
    : job_(job), timeout_(timeout), deadline_(Clock::now() + timeout) {}

std::shared_ptr<Meeting> Meeting::begin(const Job& job, milliseconds timeout) {
  std::shared_ptr<Meeting> meeting(new Meeting(job, timeout));
  // Detached, because a call in it may return only after the time is up.
  std::thread([meeting] { meeting->run(); }).detach();
  return meeting;
}

std::string Meeting::who() const {
  return fmt::format("launch: rank {} of {} (pid {} on {})", job_.rank, job_.size, getpid(), host_name());
}

void Meeting::now_missing(std::string what, bool is_told) {
  const std::lock_guard lock(mutex_);
  missing_ = std::move(what);
  is_told_ = is_told;
}

void Meeting::run() {
  std::exception_ptr failure;
  try {
    const std::string address = find_master();
    if (!address.empty()) {
      open_store(address);
      register_rank();
      wait_for_ranks();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  done_ = true;
  changed_.notify_all();
}

// Returns the address of the master, or an empty string if the time is up first.
std::string Meeting::find_master() {
  if (job_.rank == 0) {
    if (!job_.listening) job_.listening = bind_master(job_);
    // The store is in this process, and the name by which other ranks know it may not resolve to this host.
    return job_.listening ? own_address(*job_.listening) : "127.0.0.1";
  }
  const std::string master = fmt::format("the master at {}:{}", printable(job_.host), job_.port);
  now_missing(master + ": its name is being looked up", true);
  while (in_time()) {
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
    const Reached reached = reach(job_.host, job_.port, std::min<milliseconds>(left, kConnect));
    if (!reached.address.empty()) {
      now_missing(master + ": it is there, but does not answer", true);
      return reached.address;
    }
    now_missing(fmt::format("{}: {}", master, reached.problem), true);
    std::this_thread::sleep_for(kRetry);
  }
  return "";
}

void Meeting::open_store(const std::string& address) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(job_.port);
  options.isServer = job_.rank == 0;
  options.waitWorkers = false;       // our own wait can name who is missing
  options.timeout = timeout_ + 60s;  // longer than who waits for this thread
  options.masterListenFd = job_.listening;
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(address, options);
    store_->setTimeout(timeout_);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("EADDRINUSE") != std::string::npos) {
      fail(WEFT_UNAVAILABLE, "launch: port {} is in use on this host; choose another one (MASTER_PORT)",
           job_.port);
    }
    fail(WEFT_UNAVAILABLE, "{} could not talk to the master at {}:{}: {}", who(), printable(job_.host),
         job_.port, what_happened(text, timeout_));
  }
}

void Meeting::register_rank() try {
  require_same(*store_, "launch: number of ranks", "launch/size", std::to_string(job_.size));
  if (store_->add(fmt::format("launch/count/{}", job_.rank), 1) != 1) {
    fail(WEFT_INVALID_ARGUMENT,
         "launch: rank {} of {} is at {}:{} already; every process needs a rank of its own", job_.rank,
         job_.size, job_.host, job_.port);
  }
  store_->set(rank_key(job_.rank), host_name());
  store_->add(kNumHere, 1);
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  fail(WEFT_UNAVAILABLE, "{} lost the master at {}:{}: {}", who(), printable(job_.host), job_.port,
       what_happened(error.what(), timeout_));
}

void Meeting::wait_for_ranks() try {
  std::vector<std::string> keys;
  for (int rank = 0; rank < job_.size; ++rank) keys.push_back(rank_key(rank));
  while (in_time()) {
    look_for_missing_ranks();
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
    try {
      store_->wait(keys, std::clamp<milliseconds>(left, 1ms, kLook));
      return now_missing("", false);
    } catch (const std::exception& error) {
      if (what_happened(error.what(), timeout_).find("timed out") == std::string::npos) throw;
    }
  }
} catch (const std::exception& error) {
  fail(WEFT_UNAVAILABLE, "{} lost the master at {}:{}: {}", who(), printable(job_.host), job_.port,
       what_happened(error.what(), timeout_));
}

// Rank 0 looks for each rank and prints which are missing. All other ranks only count.
void Meeting::look_for_missing_ranks() {
  const std::string place = fmt::format("{}:{}", printable(job_.host), job_.port);
  if (job_.rank != 0) {
    const int64_t num_missing = job_.size - store_->add(kNumHere, 0);
    return now_missing(fmt::format("{} of the ranks to come to {}", num_missing, place), false);
  }
  std::vector<int> missing;
  for (int rank = 0; rank < job_.size; ++rank)
    if (!store_->check({rank_key(rank)})) missing.push_back(rank);
  if (missing.empty()) return;
  now_missing(fmt::format("{}, which {} to come to {}", places_text(missing, job_),
                          missing.size() == 1 ? "has" : "have", place),
              true);
}

c10::intrusive_ptr<c10d::Store> Meeting::wait() {
  const Activity activity("the meeting of the ranks");
  const Clock::time_point begin = Clock::now();
  Clock::time_point word = begin + kSilence;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_until(lock, std::min(word, deadline_), [this] { return done_; }) && in_time()) {
    word += kBetweenWords;
    if (!is_told_) continue;
    const std::string line =
        fmt::format("{} has waited {} for {}; it waits {} in all (--timeout)\n", who(),
                    seconds_text(std::chrono::round<std::chrono::seconds>(Clock::now() - begin)), missing_,
                    seconds_text(timeout_));
    std::fputs(line.c_str(), stderr);  // fmt::print throws where nobody reads
    std::fflush(stderr);
  }
  if (failure_) std::rethrow_exception(failure_);
  if (done_ && store_ && missing_.empty()) return store_;
  fail(WEFT_UNAVAILABLE,
       "{} timed out after {}, waiting for {}; see that they run and that MASTER_ADDR and "
       "MASTER_PORT are those of rank 0, or wait longer (--timeout)",
       who(), seconds_text(timeout_), missing_);
}

}  // namespace weft::comm
