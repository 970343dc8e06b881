// What the program that started this process said about its rank. Apart from world.hpp, whose function
// launch() and the launcher's namespace of that name cannot meet in one file.
#pragma once

#include <optional>
#include <string>

namespace weft::comm {

struct Job {
  int rank = 0;
  int size = 1;
  int local_rank = -1;  // -1 and 0: unknown, the ranks compare their host names
  int local_size = 0;
  std::string host;  // of rank 0
  int port = 0;
  bool host_is_loopback = false;
  std::optional<int> listening;  // on rank 0, a socket bound to the port by the launcher
};

Job job_from_environment();
Job explicit_job(int rank, int size, const std::string& host, int port);

// The rank of this process in the job that it has joined; 0 before. A process joins one job.
void join_as(int rank);
int own_rank();

}  // namespace weft::comm
