#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "comm/rendezvous.hpp"

namespace weft::comm {
namespace {

using c10d::ProcessGroupGloo;

constexpr const char* kInterfaceVariable = "GLOO_SOCKET_IFNAME";  // as in PyTorch

std::set<std::string> interfaces() {
  std::set<std::string> names;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) names.insert(entry->ifa_name);
  freeifaddrs(list);
  return names;
}

// Returns the address of this host on the route to `address`. Connecting a datagram socket sends nothing.
std::string local_address_towards(const sockaddr* address, socklen_t size) {
  const int descriptor = socket(address->sa_family, SOCK_DGRAM, 0);
  if (descriptor < 0) return "";
  sockaddr_storage local{};
  socklen_t local_size = sizeof(local);
  char text[NI_MAXHOST] = "";
  if (connect(descriptor, address, size) == 0 &&
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&local), &local_size) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&local), local_size, text, sizeof(text), nullptr, 0,
                NI_NUMERICHOST);
  }
  close(descriptor);
  return text;
}

bool is_loopback_address(const std::string& text) {
  return text.rfind("127.", 0) == 0 || text == "::1";
}

// Returns the address of this host on the route to `host`; empty if there is none.
std::string local_address_towards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  std::string text;
  for (const addrinfo* entry = found; entry && text.empty(); entry = entry->ai_next) {
    text = local_address_towards(entry->ai_addr, entry->ai_addrlen);
  }
  freeaddrinfo(found);
  return text;
}

}  // namespace

void check_interface() {
  const auto name = environment(kInterfaceVariable);
  const std::set<std::string> names = interfaces();
  if (!name || names.empty() || names.count(*name)) return;
  fail(WEFT_INVALID_ARGUMENT, "launch: {} is \"{}\", which is no network interface of this host; it has {}",
       kInterfaceVariable, printable(*name), fmt::join(names, ", "));
}

std::shared_ptr<::gloo::transport::Device> choose_device(const Job& job) {
  if (const auto name = environment(kInterfaceVariable))
    return ProcessGroupGloo::createDeviceForInterface(*name);
  if (job.host_is_loopback) return ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  std::string address = local_address_towards(job.host, job.port);
  // On Debian /etc/hosts gives the host's own name a loopback address, which other hosts cannot reach. They
  // can reach the address of the default route, which leads to 192.0.2.1 (RFC 5737: an address that nobody
  // has).
  if (is_loopback_address(address) && job.local_size < job.size)
    address = local_address_towards("192.0.2.1", 9);
  if (address.empty()) {
    fail(WEFT_UNAVAILABLE,
         "launch: no address of this host routes to the master {}; set GLOO_SOCKET_IFNAME to the network "
         "interface to use",
         printable(job.host));
  }
  return ProcessGroupGloo::createDeviceForHostname(address);
}

}  // namespace weft::comm
