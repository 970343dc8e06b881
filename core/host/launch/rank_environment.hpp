// Which rank this process is, as told by the program that started it.
#pragma once

#include <string>

namespace weft::launch {

struct RankEnvironment {
  int rank = 0;
  int local_rank = 0;  // among the ranks of this host; -1: unknown, the ranks must compare their host names
  int world_size = 1;
  int local_world_size = 1;               // 0: unknown
  std::string master_addr = "127.0.0.1";  // of rank 0
  int master_port = 0;                    // 0 with one rank, which needs no network
  std::string source = "none";            // "torchrun", "openmpi", "slurm", "explicit", "none"
};

// The port of rank 0 on several hosts when nothing else is said; torchrun's.
inline constexpr int kDefaultPort = 29500;

// Reads the environment of torchrun (`weft run` sets the same), Open MPI's mpirun or SLURM's srun, in this
// order. Returns one rank if none of them started this process. mpirun comes before SLURM because in a SLURM
// job its ranks inherit the SLURM variables of its daemons.
//
// torchrun: RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK LOCAL_WORLD_SIZE. The last two may both be
//   absent where MASTER_ADDR is a loopback address (one host); MASTER_PORT may be absent on several hosts
//   (29500).
// Open MPI: OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE. On one host the master is 127.0.0.1 and the
//   port comes from the job's name (PMIX_NAMESPACE), the same on all ranks; on several hosts MASTER_ADDR must
//   be given and the port is 29500. MASTER_ADDR and MASTER_PORT win.
// SLURM: SLURM_PROCID SLURM_LOCALID SLURM_NTASKS, tasks on this node from SLURM_(STEP_)TASKS_PER_NODE and
//   SLURM_NODEID or from SLURM_NTASKS_PER_NODE. The master is the first node of SLURM_(STEP|JOB)_NODELIST,
//   127.0.0.1 on one node; the port comes from SLURM_JOB_ID and the step. MASTER_ADDR and MASTER_PORT win. A
//   batch script itself is no rank.
//
// Ports made from a name are in 20000..29499, below those that Linux gives to outgoing connections. Two jobs
// on one host may get the same one (1 in 9500); rank 0 then fails to bind it, and MASTER_PORT chooses
// another.
//
// Throws INVALID_ARGUMENT, naming the variable, its value and what it must be, for a variable that is missing
// beside others of its launcher, not a number, or out of range.
RankEnvironment read_rank_environment();

// Returns what the caller of launch(rank, world_size, host, port) gave, checked in the same way. The place on
// this host is known if `host` is a loopback address or LOCAL_RANK and LOCAL_WORLD_SIZE are set.
RankEnvironment explicit_ranks(int rank, int world_size, const std::string& host, int port);

// Returns true for 127.*, ::1 and localhost.
bool is_loopback(const std::string& host);

}  // namespace weft::launch
