#include "comm/rendezvous.hpp"

#include <c10/util/Logging.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "comm/group.hpp"

namespace weft::comm {
namespace {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// c10d logs every failed call with a stack, and throws it too; the exception is what we tell.
// TORCH_CPP_LOG_LEVEL, which libtorch reads itself, brings the log back.
void quiet_log() {
  constexpr int kErrors = 2;
  if (!environment("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors);
}

// A write to a peer that has died is to fail with an error. Gloo writes without asking for that, so without
// this the signal would end the process with no word. A handler of the program's own stays.
void ignore_broken_pipes() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

std::string rank_key(int rank) {
  return fmt::format("launch/rank/{}", rank);
}

c10::intrusive_ptr<c10d::Store> open_store(const Job& job, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(job.port);
  options.isServer = job.rank == 0;
  options.waitWorkers = false;  // our own wait can name who is missing
  options.timeout = timeout;
  options.masterListenFd = job.listening;
  try {
    return c10::make_intrusive<c10d::TCPStore>(job.host, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (text.find("EADDRINUSE") != std::string::npos) {
      fail(WEFT_UNAVAILABLE, "launch: port {} is in use on this host; choose another one (MASTER_PORT)",
           job.port);
    }
    fail(WEFT_UNAVAILABLE, "launch: rank {} of {} found no master at {}:{}: {}", job.rank, job.size, job.host,
         job.port, what_happened(text, timeout));
  }
}

std::vector<std::string> missing_ranks(c10d::Store& store, int size) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({rank_key(rank)})) missing.push_back(std::to_string(rank));
  }
  return missing;
}

void wait_for_ranks(c10d::Store& store, const Job& job, std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < job.size; ++rank) keys.push_back(rank_key(rank));
  std::string text;
  try {
    store.wait(keys, timeout);
    return;
  } catch (const std::exception& error) {
    text = what_happened(error.what(), timeout);
  }
  std::vector<std::string> missing;
  try {
    missing = missing_ranks(store, job.size);
  } catch (const std::exception&) {
    fail(WEFT_UNAVAILABLE, "launch: rank {} of {} lost the master at {}:{}: {}", job.rank, job.size, job.host,
         job.port, text);
  }
  fail(WEFT_UNAVAILABLE, "launch: rank {} of {} at {}:{}: {}; did not come: rank {}", job.rank, job.size,
       job.host, job.port, text, fmt::join(missing, ", "));
}

void find_place_on_host(c10d::Store& store, Job& job) {
  if (job.local_rank >= 0 && job.local_size > 0) return;
  job.local_rank = job.local_size = 0;
  const std::string own = host_name();
  for (int rank = 0; rank < job.size; ++rank) {
    if (store.get_to_str(rank_key(rank)) != own) continue;
    job.local_rank += rank < job.rank;
    ++job.local_size;
  }
}

}  // namespace

void Rendezvous::agree(const std::string& who, const std::string& key, const std::string& value) const {
  std::string first;
  try {
    first = store->compareSet(key, "", value);
  } catch (const std::exception& error) {
    fail(WEFT_UNAVAILABLE, "{}: the store on the master: {}", who, what_happened(error.what(), timeout));
  }
  if (first == value) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: this rank gives {}, another one {}; all must give the same", who, value,
       first);
}

std::shared_ptr<Rendezvous> meet(Job& job, std::chrono::milliseconds timeout) {
  quiet_log();
  ignore_broken_pipes();
  check_interface();
  auto rendezvous = std::make_shared<Rendezvous>();
  rendezvous->timeout = timeout;
  rendezvous->store = open_store(job, timeout);
  c10d::Store& store = *rendezvous->store;
  rendezvous->agree("launch: number of ranks", "launch/size", std::to_string(job.size));
  if (store.add(fmt::format("launch/count/{}", job.rank), 1) != 1) {
    fail(WEFT_INVALID_ARGUMENT,
         "launch: rank {} of {} is at {}:{} already; every process needs a rank of its own", job.rank,
         job.size, job.host, job.port);
  }
  store.set(rank_key(job.rank), host_name());
  wait_for_ranks(store, job, timeout);
  find_place_on_host(store, job);
  rendezvous->device = choose_device(job);
  return rendezvous;
}

}  // namespace weft::comm
