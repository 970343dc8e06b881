// Finds the address under which the master of a job can be reached.
#pragma once

#include <chrono>
#include <string>

namespace weft::comm {

// The result of reach(): the numeric address that accepted a connection, or why none did.
struct Reached {
  std::string address, problem;
};

// Looks up `host` and connects to each of its addresses in turn, for at most `patience` each, until one
// accepts. The name service may take longer than that.
Reached reach(const std::string& host, int port, std::chrono::milliseconds patience);

// Returns the numeric address at which processes of this host reach a listening socket of this host.
std::string own_address(int listening);

}  // namespace weft::comm
