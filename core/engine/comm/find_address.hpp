// Where the master listens.
#pragma once

#include <chrono>
#include <string>

namespace weft::comm {

// A try to reach a port of a host: its address as numbers, if somebody listens there, otherwise why not, as
// words.
struct Reached {
  std::string address, problem;
};

// Looks the name up and tries its addresses, each until `patience` has passed. The name service may take
// longer.
Reached reach(const std::string& host, int port, std::chrono::milliseconds patience);

// The address as numbers at which a listening socket of this host is reached from this host.
std::string own_address(int listening);

}  // namespace weft::comm
