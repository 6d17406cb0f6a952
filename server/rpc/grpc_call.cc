#include "server/rpc/grpc_call.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/gate/relayed_peer.h"
#include "server/rpc/status.h"

namespace maxsim::rpc {

absl::Status Authenticate(const Authenticator& authenticator, const grpc::CallbackServerContext& context, Scope scope) {
  if (!authenticator.enabled(scope)) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  return authenticator.Check(
      it == metadata.end() ? std::string_view() : std::string_view(it->second.data(), it->second.size()), scope);
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  // gRPC's "never" is the clock's largest value; anything years away means the same.
  if (deadline - std::chrono::system_clock::now() > std::chrono::hours(24 * 365)) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

uint64_t ClientOf(std::string_view value, std::string_view peer) {
  // A value and an address of the same text are two clients.
  constexpr uint64_t kNamed = 0x9e3779b97f4a7c15u;
  const std::hash<std::string_view> hash;
  if (!value.empty()) return hash(value) ^ kNamed;
  if (peer.substr(0, 5) == "ipv4:" || peer.substr(0, 5) == "ipv6:") {
    peer = peer.substr(5, std::max<size_t>(peer.rfind(':'), 5) - 5);
    // The brackets of an IPv6 address, percent-encoded.
    if (peer.size() > 6 && peer.substr(0, 3) == "%5B") peer = peer.substr(3, peer.size() - 6);
  }
  if (const std::string_view relayed = gate::RelayedHost(peer); !relayed.empty()) peer = relayed;
  return hash(peer);
}

uint64_t ClientOf(const grpc::CallbackServerContext& context, const std::string& key) {
  if (!key.empty()) {
    const auto& metadata = context.client_metadata();
    const auto it = metadata.find(key);
    if (it != metadata.end() && !it->second.empty()) {
      return ClientOf(std::string_view(it->second.data(), it->second.size()), "");
    }
  }
  return ClientOf("", context.peer());
}

void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (const uint32_t ms = RetryDelayMs(status); ms > 0) context.AddTrailingMetadata(kPushbackKey, absl::StrCat(ms));
}

}  // namespace maxsim::rpc
