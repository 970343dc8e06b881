#include "comm/find_address.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.hpp"

namespace weft::comm {
namespace {

std::string as_numbers(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

// A list, or why there is none, for gai_strerror().
struct Addresses {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> first{nullptr, freeaddrinfo};
  int problem = 0;
};

Addresses look_up(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  Addresses addresses;
  addresses.problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (addresses.problem == 0) addresses.first.reset(found);
  return addresses;
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// Returns 0, or the errno of the call that failed.
int connect_within(const addrinfo& address, std::chrono::milliseconds patience) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int problem = connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd event = {fd, POLLOUT, 0};
    const int ready = poll(&event, 1, static_cast<int>(patience.count()));
    socklen_t size = sizeof(problem);
    if (ready <= 0)
      problem = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0)
      problem = errno;
  }
  close(fd);
  return problem;
}

std::string words_of(int problem, const std::string& address) {
  if (problem == ECONNREFUSED) return fmt::format("{} refuses the connection: nobody listens there", address);
  if (problem == ETIMEDOUT) return fmt::format("{} does not answer", address);
  return fmt::format("{}: {}", address, std::strerror(problem));
}

}  // namespace

Reached reach(const std::string& host, int port, std::chrono::milliseconds patience) {
  const Addresses addresses = look_up(host, port);
  if (addresses.problem != 0)
    return {"", fmt::format("the name does not resolve ({})", gai_strerror(addresses.problem))};
  std::string problem;
  for (const addrinfo* entry = addresses.first.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string address = as_numbers(entry->ai_addr, entry->ai_addrlen);
    const int failed = connect_within(*entry, patience);
    if (failed == 0) return {address, ""};
    problem += (problem.empty() ? "" : ", ") + words_of(failed, address);
  }
  return {"", problem};
}

std::optional<int> bind_master(const Job& job) {
  const Addresses addresses = look_up(job.host, job.port);
  const bool one_host = job.host_is_loopback || job.local_size == job.size;
  for (const addrinfo* entry = addresses.first.get(); entry != nullptr; entry = entry->ai_next) {
    if (!one_host && is_loopback(*entry->ai_addr)) continue;
    const int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(fd, entry->ai_addr, entry->ai_addrlen) == 0)
      return fd;
    const int problem = errno;
    close(fd);
    if (problem == EADDRINUSE) break;  // no other address either: ranks would take this one for the master
  }
  return std::nullopt;
}

std::string own_address(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "127.0.0.1";
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  if (address.ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY)) return "127.0.0.1";
  if (address.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)) return "::1";
  return as_numbers(reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace weft::comm
