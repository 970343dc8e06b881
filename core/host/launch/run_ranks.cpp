#include <fstream>
#include <iterator>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "host/launch/job.hpp"
#include "host/launch/rank_environment.hpp"
#include "host/launch/run_ranks.hpp"

namespace weft::launch {
namespace {

constexpr const char* kLaunchedVariable = "WEFT_RUN_SELF";

void refuse_nested_launch(const std::string& what) {
  const RankEnvironment ranks = read_rank_environment();
  if (ranks.world_size == 1) return;
  const char* by = ranks.source == "torchrun"  ? "torchrun or `weft run` (RANK, WORLD_SIZE)"
                   : ranks.source == "openmpi" ? "mpirun (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)"
                                               : "srun (SLURM_PROCID, SLURM_NTASKS)";
  fail(WEFT_FAILED_PRECONDITION,
       "{} starts ranks, but this process is rank {} of {} already, started by {}: use those ranks, or unset "
       "these variables",
       what, ranks.rank, ranks.world_size, by);
}

void check(const RunOptions& options) {
  if (options.num_ranks < 1 || options.num_ranks > kMostRanksPerHost) {
    fail(WEFT_INVALID_ARGUMENT, "-n is {}, but must be from 1 to {} ranks", options.num_ranks,
         kMostRanksPerHost);
  }
  if (options.grace <= std::chrono::milliseconds::zero())
    fail(WEFT_INVALID_ARGUMENT, "--grace is {} s, but must be more than 0",
         static_cast<double>(options.grace.count()) / 1000);
  if (options.command.empty() || options.command.front().empty()) {
    fail(WEFT_INVALID_ARGUMENT, "there is no program to run: give one after -n {}", options.num_ranks);
  }
}

}  // namespace

int run_ranks(const RunOptions& asked) {
  RunOptions options = asked;
  check(options);
  refuse_nested_launch("weft " + options.verb);
  options.environment.push_back(fmt::format("{}=", kLaunchedVariable));
  return Job(options, options.command.front(), /*listens=*/false).run();
}

bool must_launch(std::optional<int> num_ranks) {
  if (!num_ranks) return false;
  if (*num_ranks < 1 || *num_ranks > kMostRanksPerHost) {
    fail(WEFT_INVALID_ARGUMENT, "-n is {}, but must be from 1 to {} ranks", *num_ranks, kMostRanksPerHost);
  }
  if (is_launched_by_itself()) return false;
  refuse_nested_launch("-n");
  return *num_ranks > 1;
}

bool is_launched_by_itself() {
  return environment_flag(kLaunchedVariable);
}

int run_self(RunOptions options) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  options.command.clear();
  for (size_t begin = 0; begin < text.size(); begin = text.find('\0', begin) + 1) {
    options.command.emplace_back(text.c_str() + begin);
    if (text.find('\0', begin) == std::string::npos) break;
  }
  check(options);
  options.environment.push_back(fmt::format("{}=1", kLaunchedVariable));
  return Job(options, "/proc/self/exe", /*listens=*/true).run();
}

}  // namespace weft::launch
