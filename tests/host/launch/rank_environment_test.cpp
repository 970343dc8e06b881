#include "host/launch/rank_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/error.hpp>

#include <cstdlib>
#include <map>
#include <string>

namespace weft::launch {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

// Each test begins without any launcher's variables.
class LauncherEnvironment : public testing::Test {
 protected:
  LauncherEnvironment() { clear(); }
  ~LauncherEnvironment() override { clear(); }

  static void clear() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
      for (const char* prefix :
           {"RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMIX_", "SLURM_", "ENVIRONMENT"}) {
        if (name.starts_with(prefix)) names.push_back(name);
      }
    }
    for (const std::string& name : names) unsetenv(name.c_str());
  }
  static void set(const Variables& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  static RankEnvironment read(const Variables& variables) {
    set(variables);
    return read_rank_environment();
  }
  static std::string refusal(const Variables& variables) {
    try {
      read(variables);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), WEFT_INVALID_ARGUMENT);
      return error.what();
    }
    return "accepted";
  }
  // `all` with some variables changed, or removed where the value is "-".
  static Variables with(Variables all, const Variables& changes) {
    for (const auto& [name, value] : changes) {
      all[name] = value;
      if (value == "-") all.erase(name);
    }
    return all;
  }
};

void expect_ranks(const RankEnvironment& ranks, int rank, int world_size, int local_rank,
                  int local_world_size) {
  EXPECT_EQ(ranks.rank, rank);
  EXPECT_EQ(ranks.world_size, world_size);
  EXPECT_EQ(ranks.local_rank, local_rank);
  EXPECT_EQ(ranks.local_world_size, local_world_size);
}

TEST_F(LauncherEnvironment, IsOneRankWithoutAny) {
  const RankEnvironment ranks = read_rank_environment();
  expect_ranks(ranks, 0, 1, 0, 1);
  EXPECT_EQ(ranks.source, "none");
  EXPECT_EQ(ranks.master_port, 0);
}

TEST_F(LauncherEnvironment, IgnoresMasterAddressAlone) {
  EXPECT_EQ(read({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}).source, "none");
}

const Variables kTorchrun = {{"RANK", "3"},         {"LOCAL_RANK", "1"},
                             {"WORLD_SIZE", "4"},   {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "23456"}};

TEST_F(LauncherEnvironment, RefusesTorchrunsVariablesOutOfRange) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "4"}})),
              HasSubstr("RANK is 4, but must be from 0 to 3 (WORLD_SIZE is 4)"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK is -1"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE is 0"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "2"}})),
              HasSubstr("LOCAL_RANK is 2, but must be from 0 to 1 (LOCAL_WORLD_SIZE is 2)"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}})), HasSubstr("LOCAL_WORLD_SIZE is 5"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "65536"}})), HasSubstr("MASTER_PORT is 65536"));
}

TEST_F(LauncherEnvironment, RefusesWhatIsNoNumber) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "one"}})),
              HasSubstr("RANK is \"one\", but must be an integer"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "4x"}})), HasSubstr("WORLD_SIZE is \"4x\""));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "99999999999999999999"}})), HasSubstr("MASTER_PORT"));
}

TEST_F(LauncherEnvironment, RefusesTorchrunsVariablesHalfSet) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "-"}})), HasSubstr("but RANK is not"));
  EXPECT_THAT(refusal({{"RANK", "0"}}), HasSubstr("RANK is set, but WORLD_SIZE is not"));
  EXPECT_THAT(refusal({{"LOCAL_RANK", "0"}}), HasSubstr("LOCAL_RANK is set, but WORLD_SIZE is not"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "-"}})),
              HasSubstr("LOCAL_WORLD_SIZE is set, but LOCAL_RANK is not"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "-"}, {"LOCAL_WORLD_SIZE", "-"}})),
              HasSubstr("MASTER_ADDR is \"n1\""));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_ADDR", "-"}})), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}),
              HasSubstr("MASTER_PORT is not set"));
}

TEST_F(LauncherEnvironment, ReadsTorchruns) {
  const RankEnvironment ranks = read(kTorchrun);
  expect_ranks(ranks, 3, 4, 1, 2);
  EXPECT_EQ(ranks.master_addr, "n1");
  EXPECT_EQ(ranks.master_port, 23456);
  EXPECT_EQ(ranks.source, "torchrun");
  EXPECT_EQ(read(with(kTorchrun, {{"MASTER_PORT", "-"}})).master_port, 29500);
}

TEST_F(LauncherEnvironment, TakesLocalRanksFromTheLoopbackAddress) {
  expect_ranks(
      read({{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "1234"}}), 1, 3,
      1, 3);
  expect_ranks(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), 0, 1, 0, 1);
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "1881931777"}};

TEST_F(LauncherEnvironment, RefusesOpenMpisHalfSetAndOnSeveralHostsWithoutMaster) {
  EXPECT_THAT(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "-"}})),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "-"}})),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK is not"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "2"}})),
              HasSubstr("OMPI_COMM_WORLD_RANK is 2"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}})),
              HasSubstr("mpirun -x MASTER_ADDR=HOST"));
  EXPECT_THAT(refusal(with(kOpenMpi, {{"PMIX_NAMESPACE", "-"}})), HasSubstr("mpirun -x MASTER_PORT=PORT"));
}

TEST_F(LauncherEnvironment, ReadsOpenMpis) {
  const RankEnvironment ranks = read(kOpenMpi);
  expect_ranks(ranks, 1, 2, 1, 2);
  EXPECT_EQ(ranks.source, "openmpi");
  EXPECT_EQ(ranks.master_addr, "127.0.0.1");
  EXPECT_GE(ranks.master_port, 20000);
  EXPECT_LT(ranks.master_port, 29500);

  const RankEnvironment peer =
      read(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}));
  EXPECT_EQ(peer.master_port, ranks.master_port);
  EXPECT_NE(read(with(kOpenMpi, {{"PMIX_NAMESPACE", "1881931778"}})).master_port, ranks.master_port);

  const RankEnvironment two_hosts =
      read(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "n1"}}));
  EXPECT_EQ(two_hosts.master_addr, "n1");
  EXPECT_EQ(two_hosts.master_port, 29500);
  EXPECT_EQ(read(with(kOpenMpi, {{"MASTER_PORT", "1234"}})).master_port, 1234);
}

const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NTASKS", "7"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_TASKS_PER_NODE", "2(x3),1"},
                          {"SLURM_JOB_NODELIST", "n[01-03],m2"},
                          {"SLURM_JOB_ID", "4711"}};

TEST_F(LauncherEnvironment, RefusesSlurmsHalfSet) {
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NTASKS", "-"}})), HasSubstr("SLURM_NTASKS is not"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_LOCALID", "-"}})), HasSubstr("SLURM_LOCALID is not"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NODEID", "-"}})), HasSubstr("SLURM_NODEID is not"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_TASKS_PER_NODE", "-"}})), HasSubstr("SLURM_NTASKS_PER_NODE"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_JOB_NODELIST", "-"}})), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_JOB_ID", "-"}})), HasSubstr("SLURM_JOB_ID"));
}

TEST_F(LauncherEnvironment, RefusesSlurmsOutOfRange) {
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_PROCID", "7"}})),
              HasSubstr("SLURM_PROCID is 7, but must be from 0 to 6"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NODEID", "4"}})), HasSubstr("SLURM_NODEID is 4"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_LOCALID", "2"}})), HasSubstr("(2 tasks run on this node)"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_DISTRIBUTION", "arbitrary"}})), HasSubstr("set MASTER_ADDR"));
}

TEST_F(LauncherEnvironment, ReadsSlurms) {
  const RankEnvironment ranks = read(kSlurm);
  expect_ranks(ranks, 5, 7, 1, 2);
  EXPECT_EQ(ranks.source, "slurm");
  EXPECT_EQ(ranks.master_addr, "n01");
  EXPECT_EQ(ranks.master_port,
            read(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}})).master_port);
  EXPECT_NE(ranks.master_port, read(with(kSlurm, {{"SLURM_JOB_ID", "4712"}})).master_port);
  EXPECT_NE(ranks.master_port, read(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).master_port);
  expect_ranks(read(with(kSlurm, {{"SLURM_PROCID", "6"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "3"}})), 6,
               7, 0, 1);
  EXPECT_EQ(read(with(kSlurm, {{"MASTER_ADDR", "m2"}, {"MASTER_PORT", "99"}})).master_addr, "m2");
}

TEST_F(LauncherEnvironment, ReadsSlurmsOnOneNodeWithoutNames) {
  const RankEnvironment ranks = read({{"SLURM_PROCID", "1"},
                                      {"SLURM_LOCALID", "1"},
                                      {"SLURM_NTASKS", "2"},
                                      {"SLURM_NTASKS_PER_NODE", "2"},
                                      {"SLURM_NODELIST", "n1"},
                                      {"SLURM_JOB_ID", "1"}});
  expect_ranks(ranks, 1, 2, 1, 2);
  EXPECT_EQ(ranks.master_addr, "127.0.0.1");
}

TEST_F(LauncherEnvironment, PrefersTheStepToTheSlurmJob) {
  const RankEnvironment ranks = read(with(kSlurm, {{"SLURM_PROCID", "1"},
                                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                                   {"SLURM_STEP_NODELIST", "n03"},
                                                   {"SLURM_STEP_TASKS_PER_NODE", "2"}}));
  expect_ranks(ranks, 1, 2, 1, 2);
  EXPECT_EQ(ranks.master_addr, "127.0.0.1");
}

TEST_F(LauncherEnvironment, TakesNoBatchScriptForARank) {
  EXPECT_EQ(read(with(kSlurm, {{"ENVIRONMENT", "BATCH"}})).source, "none");
  EXPECT_EQ(read(with(kSlurm, {{"ENVIRONMENT", "BATCH"}, {"SLURM_STEP_ID", "0"}})).source, "slurm");
}

TEST_F(LauncherEnvironment, PrefersTorchrunToOpenMpiToSlurm) {
  Variables both = kSlurm;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(read(both).source, "openmpi");
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(read(both).source, "torchrun");
}

std::string refusal_of_explicit(int rank, int world_size, const std::string& host, int port) {
  try {
    explicit_ranks(rank, world_size, host, port);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_F(LauncherEnvironment, ChecksWhatIsToldExplicitly) {
  EXPECT_THAT(refusal_of_explicit(2, 2, "n1", 1),
              HasSubstr("rank is 2, but must be from 0 to 1 (world_size is 2)"));
  EXPECT_THAT(refusal_of_explicit(0, 0, "n1", 1), HasSubstr("world_size is 0"));
  EXPECT_THAT(refusal_of_explicit(0, 2, "", 1), HasSubstr("host is empty"));
  EXPECT_THAT(refusal_of_explicit(0, 2, "n1", 0), HasSubstr("port is 0"));
  expect_ranks(explicit_ranks(1, 2, "127.0.0.1", 1234), 1, 2, 1, 2);
  expect_ranks(explicit_ranks(1, 2, "n1", 1234), 1, 2, -1, 0);
  expect_ranks(explicit_ranks(0, 1, "", 0), 0, 1, 0, 1);
  set({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  expect_ranks(explicit_ranks(1, 2, "n1", 1234), 1, 2, 0, 1);
}

}  // namespace
}  // namespace weft::launch
