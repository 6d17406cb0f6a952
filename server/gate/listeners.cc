#include "server/gate/listeners.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace maxsim::gate {
namespace {

// Maximum number of connections that wait in the kernel to be accepted. The kernel uses net.core.somaxconn if that is
// smaller.
constexpr int kBacklog = 4096;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status CannotListen(const char* key, const std::string& where, const char* why) {
  return absl::UnavailableError(absl::StrCat(key, ": cannot listen on ", where, ": ", why));
}

void SetPort(int port, sockaddr* address) {
  if (address->sa_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(static_cast<uint16_t>(port));
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// Returns a listening socket; an empty one, with errno set, after an error.
OwnedFd Listen(const sockaddr* address, socklen_t size, bool both_families) {
  OwnedFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return OwnedFd();
  const int yes = 1;
  const int only_v6 = both_families ? 0 : 1;
  if (address->sa_family != AF_UNIX) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address->sa_family == AF_INET6 &&
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6)) != 0) {
    return OwnedFd();
  }
  if (bind(fd.get(), address, size) != 0 || listen(fd.get(), kBacklog) != 0) return OwnedFd();
  return fd;
}

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

}  // namespace

absl::StatusOr<TcpListeners> ListenOnTcp(const std::string& host, int port, const std::string& address) {
  static constexpr char kKey[] = "grpc.address";
  TcpListeners listeners;
  if (IsWildcard(host)) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(static_cast<uint16_t>(port));
    OwnedFd fd = Listen(reinterpret_cast<const sockaddr*>(&any), sizeof(any), /*both_families=*/true);
    if (fd.get() >= 0) {
      listeners.port = PortOf(fd.get());
      listeners.sockets.push_back(std::move(fd));
      return listeners;
    }
    if (errno == EADDRINUSE || errno == EACCES) return CannotListen(kKey, address, std::strerror(errno));
    // The machine has no IPv6.
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) return CannotListen(kKey, address, gai_strerror(error));
  const AddressList addresses(found, &freeaddrinfo);
  listeners.port = port;
  int failed = 0;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    SetPort(listeners.port, one->ai_addr);
    OwnedFd fd = Listen(one->ai_addr, one->ai_addrlen, /*both_families=*/false);
    if (fd.get() < 0) {
      failed = errno;
      if (failed == EADDRINUSE || failed == EACCES) return CannotListen(kKey, address, std::strerror(failed));
      continue;  // A host may have an address of a family that this machine does not have.
    }
    if (listeners.port == 0) listeners.port = PortOf(fd.get());
    listeners.sockets.push_back(std::move(fd));
  }
  if (listeners.sockets.empty()) return CannotListen(kKey, address, std::strerror(failed));
  return listeners;
}

absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path) {
  const auto problem = [&path](int error) { return CannotListen("grpc.unix_socket", path, std::strerror(error)); };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return problem(ENAMETOOLONG);
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  struct stat file {};
  if (lstat(path.c_str(), &file) == 0) {
    if (!S_ISSOCK(file.st_mode)) return problem(EEXIST);
    const OwnedFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (probe.get() < 0) return problem(errno);
    // EAGAIN means that a server listens on this socket, but its backlog is full.
    if (connect(probe.get(), name, sizeof(address)) == 0 || errno == EAGAIN) return problem(EADDRINUSE);
    if (errno != ECONNREFUSED) return problem(errno);
    if (unlink(path.c_str()) != 0) return problem(errno);
  }
  OwnedFd fd = Listen(name, sizeof(address), /*both_families=*/false);
  if (fd.get() < 0) return problem(errno);
  return fd;
}

}  // namespace maxsim::gate
