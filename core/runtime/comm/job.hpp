// The rank of this process in its job, as the launcher describes it. This is not in world.hpp, because its
// function launch() and the launcher's namespace of that name cannot be in one file.
#pragma once

#include <optional>
#include <string>

namespace weft::comm {

struct Job {
  int rank = 0;
  int size = 1;
  int local_rank = -1;  // -1, with a local_size of 0: unknown, so the ranks compare their host names
  int local_size = 0;
  std::string host;  // where rank 0 listens
  int port = 0;
  bool host_is_loopback = false;
  std::optional<int> listening;  // on rank 0, a socket that the launcher has bound to the port
};

Job job_from_environment();
Job explicit_job(int rank, int size, const std::string& host, int port);

// Set and return the rank of this process in the job that it has joined; 0 before. A process joins one job.
void join_as(int rank);
int own_rank();

}  // namespace weft::comm
