#include "comm/meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "comm/find_address.hpp"
#include "comm/group.hpp"
#include "host/launch/activity.hpp"

namespace weft::comm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto kSilence = 10s;       // before the first word about who is missing
constexpr auto kBetweenWords = 60s;  // and from then on
constexpr auto kRetry = 200ms;
constexpr auto kConnect = 3s;
constexpr auto kLook = 1s;  // between two looks at who is here
constexpr const char* kNumHere = "launch/here";

std::string seconds_text(std::chrono::nanoseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time / 100ms) / 10);
}

// "ranks 1 and 2"; with several hosts of the same number of ranks, also which those are.
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

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

Meeting::Meeting(const Job& job, milliseconds timeout)
    : job_(job), timeout_(timeout), deadline_(Clock::now() + timeout) {}

std::shared_ptr<Meeting> Meeting::begin(const Job& job, milliseconds timeout) {
  std::shared_ptr<Meeting> meeting(new Meeting(job, timeout));
  // Left alone where the time is up before a call in it returns.
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

// "" if the time was up before.
std::string Meeting::find_master() {
  // The store is in this process. What the others know it by need not lead back here.
  if (job_.rank == 0) return job_.listening ? own_address(*job_.listening) : "127.0.0.1";
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
  const std::string size = std::to_string(job_.size);
  const std::string first = store_->compareSet("launch/size", "", size);
  if (first != size) {
    fail(WEFT_INVALID_ARGUMENT,
         "launch: number of ranks: this rank gives {}, another one {}; all must give the same", size, first);
  }
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

// Rank 0 asks for each rank, and tells. All others ask for their number alone.
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
