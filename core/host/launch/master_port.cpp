#include "host/launch/master_port.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/environment.hpp"
#include "base/text.hpp"

namespace weft::launch {
namespace {

// 0 if `fd` is no internet socket that is bound.
int bound_port(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

// Leaves the reason in errno.
Descriptor bind_socket(const addrinfo& address, bool listens) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (!socket || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      (listens && listen(socket.get(), SOMAXCONN) != 0)) {
    const int reason = errno;
    socket.reset();
    errno = reason;
  }
  return socket;
}

}  // namespace

MasterPort reserve_master_port(const std::string& address, int port, bool listens) {
  if (port < 0 || port > 65535) {
    fail(WEFT_INVALID_ARGUMENT, "--master-port is {}, but must be from 1 to 65535, or 0 for a free one",
         port);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (problem != 0) {
    fail(WEFT_INVALID_ARGUMENT, "--master-addr is \"{}\", but must be one of this host: {}",
         printable(address), gai_strerror(problem));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int reason = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Descriptor socket = bind_socket(*entry, listens);
    if (socket) {
      const int bound = bound_port(socket.get());
      return {std::move(socket), bound};
    }
    if (reason != EADDRINUSE) reason = errno;
  }
  if (reason == EADDRNOTAVAIL) {
    fail(WEFT_INVALID_ARGUMENT, "--master-addr is \"{}\", but must be one of this host", printable(address));
  }
  fail(WEFT_UNAVAILABLE, "cannot bind port {} at {}: {}; without --master-port a free one is taken", port,
       printable(address), std::strerror(reason));
}

std::optional<int> master_listen_fd(const RankEnvironment& ranks) {
  if (ranks.rank != 0 || ranks.master_port == 0) return std::nullopt;
  const std::optional<int64_t> fd = environment_integer(kMasterListenVariable);
  if (!fd || *fd < 0 || *fd > INT32_MAX || bound_port(static_cast<int>(*fd)) != ranks.master_port)
    return std::nullopt;
  return static_cast<int>(*fd);
}

}  // namespace weft::launch
