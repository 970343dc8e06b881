#include "comm/rendezvous.hpp"

#include <c10/util/Logging.h>

#include <algorithm>

#include "base/environment.hpp"
#include "base/host_name.hpp"
#include "base/text.hpp"
#include "comm/group.hpp"
#include "comm/meeting.hpp"

namespace weft::comm {
namespace {

// Silences the log of c10d, which logs each failed call with a stack and throws it, too. libtorch reads
// TORCH_CPP_LOG_LEVEL, which turns the log on again.
void quiet_log() {
  constexpr int kErrors = 2;
  if (!environment("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors);
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
  try {
    require_same(*store, who, key, value);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(WEFT_UNAVAILABLE, "{}: the store on the master: {}", who, what_happened(error.what(), timeout));
  }
}

std::shared_ptr<Rendezvous> meet(Job& job, std::chrono::milliseconds timeout) {
  quiet_log();
  check_interface();
  auto rendezvous = std::make_shared<Rendezvous>();
  rendezvous->timeout = timeout;
  rendezvous->store = Meeting::begin(job, timeout)->wait();
  find_place_on_host(*rendezvous->store, job);
  rendezvous->device = choose_device(job);
  return rendezvous;
}

}  // namespace weft::comm
