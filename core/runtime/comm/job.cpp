#include "comm/job.hpp"

#include <atomic>

#include "host/launch/master_port.hpp"
#include "host/launch/rank_environment.hpp"

namespace weft::comm {
namespace {

std::atomic<int> joined{0};

Job make_job(const launch::RankEnvironment& ranks) {
  Job job;
  job.rank = ranks.rank;
  job.size = ranks.world_size;
  job.local_rank = ranks.local_rank;
  job.local_size = ranks.local_world_size;
  job.host = ranks.master_addr;
  job.port = ranks.master_port;
  job.host_is_loopback = launch::is_loopback(ranks.master_addr);
  if (job.rank == 0 && job.size > 1) job.listening = launch::master_listen_fd(ranks);
  return job;
}

}  // namespace

Job job_from_environment() {
  return make_job(launch::read_rank_environment());
}

Job explicit_job(int rank, int size, const std::string& host, int port) {
  return make_job(launch::explicit_ranks(rank, size, host, port));
}

void join_as(int rank) {
  joined = rank;
}

int own_rank() {
  return joined;
}

}  // namespace weft::comm
