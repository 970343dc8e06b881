// The port at which rank 0 waits for the others, without a race: the launcher binds it and rank 0 inherits
// the bound socket in WEFT_MASTER_LISTEN_FD, so nobody can take the port in between.
#pragma once

#include <optional>
#include <string>

#include "base/descriptor.hpp"
#include "host/launch/rank_environment.hpp"

namespace weft::launch {

struct MasterPort {
  Descriptor socket;  // bound, close-on-exec
  int port = 0;
};

// Binds `port`, a free one if 0, at `address`, which must be this host's. The socket has SO_REUSEADDR. As
// long as it does not listen, the kernel gives the port to nobody, but a program that binds it by number with
// SO_REUSEADDR, as PyTorch's rank 0 does, may: so it serves programs that do not know of the inherited
// socket. With `listens`, other ranks can connect before rank 0 is ready and wait in the queue, but only rank
// 0 with the inherited socket can answer. Throws INVALID_ARGUMENT if the address is not this host's,
// UNAVAILABLE if the port is taken.
MasterPort reserve_master_port(const std::string& address, int port, bool listens);

// In rank 0 of such a launcher: the socket bound to `ranks.master_port`, for
// masterListenFd of TCPStoreOptions in c10d, which takes it over; use it once. Nothing elsewhere: rank 0
// binds the port itself.
std::optional<int> master_listen_fd(const RankEnvironment& ranks);

inline constexpr const char* kMasterListenVariable = "WEFT_MASTER_LISTEN_FD";

}  // namespace weft::launch
