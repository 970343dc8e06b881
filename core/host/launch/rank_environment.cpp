#include "host/launch/rank_environment.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "host/launch/slurm.hpp"

namespace weft::launch {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kLastPort = 65535;

int in_range(const char* name, int64_t value, int64_t low, int64_t high, const std::string& why = "") {
  if (value < low || value > high) {
    fail(WEFT_INVALID_ARGUMENT, "environment variable {} is {}, but must be from {} to {}{}", name, value,
         low, high, why);
  }
  return static_cast<int>(value);
}

// `present` is the variable of the launcher that made us look for `name`.
int64_t required(const char* name, const char* present, const char* what_to_do) {
  const std::optional<int64_t> value = environment_integer(name);
  if (!value) {
    fail(WEFT_INVALID_ARGUMENT, "environment variable {} is set, but {} is not: {}", present, name,
         what_to_do);
  }
  return *value;
}

// The four numbers, from variables of these names. An absent local pair stays unknown.
struct Names {
  const char *rank, *world_size, *local_rank, *local_world_size;
};

void read_local(RankEnvironment& ranks, const Names& names, const char* what_to_do) {
  const bool has_rank = environment(names.local_rank).has_value();
  const bool has_size = environment(names.local_world_size).has_value();
  ranks.local_rank = -1;
  ranks.local_world_size = 0;
  if (!has_rank && !has_size) return;
  const char* present = has_rank ? names.local_rank : names.local_world_size;
  ranks.local_world_size =
      in_range(names.local_world_size, required(names.local_world_size, present, what_to_do), 1,
               ranks.world_size, fmt::format(" (there are {} ranks in all)", ranks.world_size));
  ranks.local_rank = in_range(names.local_rank, required(names.local_rank, present, what_to_do), 0,
                              ranks.local_world_size - 1,
                              fmt::format(" ({} is {})", names.local_world_size, ranks.local_world_size));
}

void read_global(RankEnvironment& ranks, const Names& names, const char* present, const char* what_to_do) {
  ranks.world_size =
      in_range(names.world_size, required(names.world_size, present, what_to_do), 1, kMostRanks);
  ranks.rank = in_range(names.rank, required(names.rank, present, what_to_do), 0, ranks.world_size - 1,
                        fmt::format(" ({} is {})", names.world_size, ranks.world_size));
}

std::optional<int> given_port() {
  const std::optional<int64_t> port = environment_integer("MASTER_PORT");
  if (!port) return std::nullopt;
  return in_range("MASTER_PORT", *port, 1, kLastPort);
}

// The same for all ranks of a job without a word between them.
int port_from_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return 20000 + static_cast<int>(hash % 9500);
}

void everyone_is_local(RankEnvironment& ranks) {
  ranks.local_rank = ranks.rank;
  ranks.local_world_size = ranks.world_size;
}

RankEnvironment one_rank(const char* source) {
  RankEnvironment ranks;
  ranks.source = source;
  return ranks;
}

constexpr Names kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

RankEnvironment read_torchrun(const char* present) {
  const char* what_to_do =
      "set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun and `weft "
      "run` do, or none";
  RankEnvironment ranks;
  ranks.source = "torchrun";
  read_global(ranks, kTorchrun, present, what_to_do);
  read_local(ranks, kTorchrun, what_to_do);
  if (ranks.world_size == 1) return one_rank("torchrun");

  const std::optional<std::string> address = environment("MASTER_ADDR");
  if (!address) {
    fail(WEFT_INVALID_ARGUMENT, "environment variable WORLD_SIZE is {}, but MASTER_ADDR is not set: {}",
         ranks.world_size, what_to_do);
  }
  ranks.master_addr = *address;
  if (ranks.local_rank < 0) {
    if (!is_loopback(*address)) {
      fail(WEFT_INVALID_ARGUMENT,
           "environment variable MASTER_ADDR is \"{}\", which may be another host, but LOCAL_RANK and "
           "LOCAL_WORLD_SIZE are not set: {}",
           printable(*address), what_to_do);
    }
    everyone_is_local(ranks);
  }
  const std::optional<int> port = given_port();
  if (!port && ranks.local_world_size == ranks.world_size) {
    fail(WEFT_INVALID_ARGUMENT, "environment variable WORLD_SIZE is {}, but MASTER_PORT is not set: {}",
         ranks.world_size, what_to_do);
  }
  ranks.master_port = port.value_or(kDefaultPort);
  return ranks;
}

constexpr Names kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};

RankEnvironment read_open_mpi(const char* present) {
  const char* what_to_do =
      "mpirun sets OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK and _LOCAL_SIZE; pass all of them on";
  RankEnvironment ranks;
  ranks.source = "openmpi";
  read_global(ranks, kOpenMpi, present, what_to_do);
  required(kOpenMpi.local_rank, present, what_to_do);
  read_local(ranks, kOpenMpi, what_to_do);
  if (ranks.world_size == 1) return one_rank("openmpi");

  const bool one_host = ranks.local_world_size == ranks.world_size;
  const std::optional<std::string> address = environment("MASTER_ADDR");
  if (!address && !one_host) {
    fail(WEFT_INVALID_ARGUMENT,
         "{} of {} ranks are on this host, and MASTER_ADDR is not set: on several hosts name the host of "
         "rank 0 (mpirun -x MASTER_ADDR=HOST)",
         ranks.local_world_size, ranks.world_size);
  }
  ranks.master_addr = address.value_or("127.0.0.1");
  // Not the parent's process id: a wrapper script gives every rank another parent.
  std::optional<std::string> job = environment("PMIX_NAMESPACE");
  if (!job) job = environment("OMPI_MCA_ess_base_jobid");
  const std::optional<int> port = given_port();
  if (!port && one_host && !job) {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable {} is set, but neither PMIX_NAMESPACE nor MASTER_PORT is: choose a port "
         "(mpirun -x MASTER_PORT=PORT)",
         present);
  }
  ranks.master_port = port ? *port : one_host ? port_from_name(*job) : kDefaultPort;
  return ranks;
}

const char* first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (environment(name)) return name;
  }
  return nullptr;
}

int tasks_on_this_node(const RankEnvironment& ranks, size_t num_nodes) {
  if (const char* name = first_set({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})) {
    const std::vector<int> counts = expand_task_counts(name, *environment(name));
    if (std::all_of(counts.begin(), counts.end(), [&](int count) { return count == counts[0]; }))
      return counts[0];
    const int64_t node = required("SLURM_NODEID", name, "srun sets both; pass them on");
    return counts[in_range("SLURM_NODEID", node, 0, static_cast<int64_t>(counts.size()) - 1,
                           fmt::format(" ({} has {} nodes)", name, counts.size()))];
  }
  if (const std::optional<int64_t> count = environment_integer("SLURM_NTASKS_PER_NODE")) {
    return in_range("SLURM_NTASKS_PER_NODE", *count, 1, kMostRanks);
  }
  if (num_nodes != 1) {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable SLURM_PROCID is set, but none of SLURM_STEP_TASKS_PER_NODE, "
         "SLURM_TASKS_PER_NODE and SLURM_NTASKS_PER_NODE: srun sets them; pass them on");
  }
  return ranks.world_size;
}

std::string slurm_master(const std::vector<std::string>& hosts) {
  if (const std::optional<std::string> address = environment("MASTER_ADDR")) return *address;
  if (hosts.size() == 1) return "127.0.0.1";
  if (environment("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary")) {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable SLURM_DISTRIBUTION is arbitrary, so rank 0 may be on any node: set "
         "MASTER_ADDR to its host");
  }
  if (hosts.empty()) {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable SLURM_PROCID is set, but neither SLURM_STEP_NODELIST, SLURM_JOB_NODELIST, "
         "SLURM_NODELIST nor MASTER_ADDR: srun sets the first three; pass them on");
  }
  return hosts.front();
}

int slurm_port() {
  if (const std::optional<int> port = given_port()) return *port;
  const char* job = first_set({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (job == nullptr) {
    fail(WEFT_INVALID_ARGUMENT,
         "environment variable SLURM_PROCID is set, but neither SLURM_JOB_ID nor MASTER_PORT: srun sets the "
         "first; pass it on");
  }
  const char* step = first_set({"SLURM_STEP_ID", "SLURM_STEPID"});  // several steps of a job may run at once
  return port_from_name(*environment(job) + "." + (step ? *environment(step) : ""));
}

RankEnvironment read_slurm() {
  const char* what_to_do = "srun sets SLURM_PROCID, SLURM_LOCALID and SLURM_NTASKS; pass all of them on";
  const char* size = first_set({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  RankEnvironment ranks;
  ranks.source = "slurm";
  read_global(ranks, {"SLURM_PROCID", size ? size : "SLURM_NTASKS", nullptr, nullptr}, "SLURM_PROCID",
              what_to_do);
  if (ranks.world_size == 1) return one_rank("slurm");

  const char* nodes = first_set({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  std::vector<std::string> hosts;
  if (nodes) hosts = expand_host_list(nodes, *environment(nodes));
  // The list may be the job's, the size the step's: what a node runs is at most the step.
  ranks.local_world_size = std::min(tasks_on_this_node(ranks, hosts.size()), ranks.world_size);
  ranks.local_rank = in_range("SLURM_LOCALID", required("SLURM_LOCALID", "SLURM_PROCID", what_to_do), 0,
                              ranks.local_world_size - 1,
                              fmt::format(" ({} tasks run on this node)", ranks.local_world_size));
  ranks.master_addr = slurm_master(hosts);
  ranks.master_port = slurm_port();
  return ranks;
}

// A batch script has SLURM_PROCID too, but is one process: nobody would join it.
bool in_slurm_step() {
  if (!environment("SLURM_PROCID")) return false;
  return environment("ENVIRONMENT") != "BATCH" || first_set({"SLURM_STEP_ID", "SLURM_STEPID"}) != nullptr;
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

RankEnvironment read_rank_environment() {
  if (const char* present = first_set({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})) {
    return read_torchrun(present);
  }
  if (const char* present = first_set({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}))
    return read_open_mpi(present);
  if (in_slurm_step()) return read_slurm();
  return {};
}

RankEnvironment explicit_ranks(int rank, int world_size, const std::string& host, int port) {
  if (world_size < 1 || world_size > kMostRanks) {
    fail(WEFT_INVALID_ARGUMENT, "launch: world_size is {}, but must be from 1 to {}", world_size, kMostRanks);
  }
  if (rank < 0 || rank >= world_size) {
    fail(WEFT_INVALID_ARGUMENT, "launch: rank is {}, but must be from 0 to {} (world_size is {})", rank,
         world_size - 1, world_size);
  }
  if (world_size == 1) return one_rank("explicit");
  if (host.empty()) fail(WEFT_INVALID_ARGUMENT, "launch: host is empty, but must be the host of rank 0");
  if (port < 1 || port > kLastPort) {
    fail(WEFT_INVALID_ARGUMENT,
         "launch: port is {}, but must be from 1 to {}: a free one on the host of rank 0", port, kLastPort);
  }
  RankEnvironment ranks{rank, -1, world_size, 0, host, port, "explicit"};
  if (is_loopback(host)) {
    everyone_is_local(ranks);
  } else {
    read_local(ranks, kTorchrun, "set both or none");
  }
  return ranks;
}

}  // namespace weft::launch
