// Finds the address under which the master of a job can be reached.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "comm/job.hpp"

namespace weft::comm {

// The result of reach(): the numeric address that accepted a connection, or why none did.
struct Reached {
  std::string address, problem;
};

// Looks up `host` and connects to each of its addresses in turn, for at most `patience` each, until one
// accepts. The name service may take longer than that.
Reached reach(const std::string& host, int port, std::chrono::milliseconds patience);

// In rank 0: returns a socket bound to the port of the job at the address that the ranks use, for
// masterListenFd of TCPStoreOptions in c10d, which takes it over; so the store of a job on one host is not
// open to the network. Nothing if this host does not know the address: the name does not resolve, is that of
// a gateway, or means the loopback device here and something else on other hosts. Nothing either if the port
// is taken, which may be right: torchrun's agent has a store there, which c10d then uses.
std::optional<int> bind_master(const Job& job);

// Returns the numeric address at which processes of this host reach a listening socket of this host.
std::string own_address(int listening);

}  // namespace weft::comm
