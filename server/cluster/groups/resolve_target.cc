#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/cluster/groups/groups_watcher.h"

namespace maxsim::cluster {

absl::StatusOr<std::vector<std::string>> ResolveTarget(const std::string& target) {
  absl::string_view address = target;
  if (!absl::ConsumePrefix(&address, "dns:///")) return std::vector<std::string>{target};
  const size_t colon = address.rfind(':');
  const std::string host(address.substr(0, colon));
  const std::string port(address.substr(colon + 1));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(target, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  std::vector<std::string> targets;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    targets.push_back(entry->ai_family == AF_INET6 ? absl::StrCat("ipv6:[", text.data(), "]:", port)
                                                   : absl::StrCat("ipv4:", text.data(), ":", port));
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  if (targets.empty()) return absl::UnavailableError(absl::StrCat(target, ": has no address"));
  return targets;
}

}  // namespace maxsim::cluster
