#include "host/launch/master_port.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <weft/error.hpp>

#include <cstdlib>

namespace weft::launch {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& address, int port) {
  try {
    reserve_master_port(address, port, /*listens=*/false);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// As PyTorch's rank 0 does on its own.
bool another_listens_on(int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
         listen(socket.get(), 1) == 0;
}

TEST(MasterPort, RefusesAddressesOfOthersAndPortsThatAreTaken) {
  EXPECT_THAT(refusal("192.0.2.77", 0),
              HasSubstr("--master-addr is \"192.0.2.77\", but must be one of this host"));
  EXPECT_THAT(refusal("127.0.0.1", 65536), HasSubstr("--master-port is 65536"));
  const MasterPort taken = reserve_master_port("127.0.0.1", 0, /*listens=*/true);
  EXPECT_THAT(refusal("127.0.0.1", taken.port), HasSubstr("cannot bind port " + std::to_string(taken.port)));
}

TEST(MasterPort, IsKeptFromOthersButNotFromProgramsThatBindItByNumber) {
  const MasterPort reserved = reserve_master_port("127.0.0.1", 0, /*listens=*/false);
  EXPECT_GT(reserved.port, 0);
  EXPECT_TRUE(another_listens_on(reserved.port));
  const MasterPort listening = reserve_master_port("127.0.0.1", 0, /*listens=*/true);
  EXPECT_FALSE(another_listens_on(listening.port));
}

TEST(MasterPort, HandsOutTheSocketToRankZeroOnly) {
  const MasterPort reserved = reserve_master_port("127.0.0.1", 0, /*listens=*/true);
  RankEnvironment ranks = {0, 0, 2, 2, "127.0.0.1", reserved.port, "torchrun"};
  EXPECT_FALSE(master_listen_fd(ranks));
  setenv(kMasterListenVariable, std::to_string(reserved.socket.get()).c_str(), 1);
  EXPECT_EQ(master_listen_fd(ranks), reserved.socket.get());
  ranks.rank = 1;
  EXPECT_FALSE(master_listen_fd(ranks));
  ranks.rank = 0;
  ranks.master_port += 1;  // another program's socket under this number
  EXPECT_FALSE(master_listen_fd(ranks));
  unsetenv(kMasterListenVariable);
}

}  // namespace
}  // namespace weft::launch
