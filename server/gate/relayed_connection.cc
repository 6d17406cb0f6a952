#include "server/gate/relayed_connection.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/gate/owned_fd.h"
#include "server/gate/relayed_peer.h"

namespace maxsim::gate {
namespace {

namespace asio = boost::asio;

// Limits for a relayed client that has shown no known token. A load balancer that checks the server's health makes a
// call of some 200 bytes every few seconds. A gRPC client that checks it makes one long call of Watch.
constexpr double kCallsPerSecond = 5;
constexpr double kCallsBurst = 20;
constexpr double kBytesPerSecond = 16 * 1024;
constexpr double kBytesBurst = 64 * 1024;
constexpr size_t kMaxOpenStreams = 16;
constexpr size_t kMaxWatches = 4;
constexpr std::string_view kWatch = "/grpc.health.v1.Health/Watch";

// Maximum number of relayed connections without a known token. Each takes three descriptors. A further one replaces the
// oldest.
constexpr size_t kMaxUnauthenticated = 64;

// Calls above the rate reach gRPC, and the gate then reads no more until the rate allows them. If this pause would be
// longer than kLongestDebt, the gate closes the connection instead.
constexpr std::chrono::seconds kLongestDebt(4);

// How long a client may keep sending bytes above the rate. This limit also closes the connection of a client that has
// hung up. Without it, the gate would notice the hang-up only after it has read all bytes that the client had sent.
constexpr std::chrono::seconds kLongestFlood(10);

// The time in which a client without a known token must read an answer.
constexpr std::chrono::seconds kWriteTime(10);

// Gives the socket `fd` a name with the client's address. gRPC has the other end of the pair, and takes this name for
// its client's. If this fails, the client has no name, and all clients without a name count as one for fairness.
void NameAfter(int fd, const Peer& peer) {
  static std::atomic<uint64_t> next_number{0};
  std::string name = absl::StrCat(std::string(kRelayedPeerPrefix.substr(kRelayedPeerPrefix.find(':') + 1)), peer.name,
                                  "/", getpid(), "-", next_number.fetch_add(1));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.resize(std::min(name.size(), sizeof(address.sun_path) - 1));
  name.copy(address.sun_path + 1, name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  (void)bind(fd, reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace

void RelayedConnection::Start(GateConnections* connections, Socket client, const Peer& peer,
                              const std::string& received) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    connections->dependencies.on_closed(CloseReason::kFull);
    return;
  }
  OwnedFd own_end(ends[0]);
  OwnedFd grpcs_end(ends[1]);
  NameAfter(own_end.get(), peer);
  auto relay = std::make_shared<RelayedConnection>(connections, std::move(client),
                                                   MakeSocket(connections->loop, AF_UNIX, std::move(own_end)), peer);
  relay->list_position_ = connections->unauthenticated.insert(connections->unauthenticated.end(), relay);
  while (connections->unauthenticated.size() > kMaxUnauthenticated) {
    connections->unauthenticated.front()->Close();
    connections->dependencies.on_closed(CloseReason::kFull);
  }
  connections->dependencies.hand_over(std::move(grpcs_end), "", /*tls=*/false);
  relay->Begin(received);
}

RelayedConnection::RelayedConnection(GateConnections* connections, Socket client, Socket grpc_socket, Peer peer)
    : connections_(*connections),
      client_socket_(std::move(client)),
      grpc_socket_(std::move(grpc_socket)),
      peer_(std::move(peer)),
      call_bucket_(kCallsPerSecond, kCallsBurst),
      byte_bucket_(kBytesPerSecond, kBytesBurst),
      pause_timer_(connections->loop),
      write_deadline_(connections->loop) {}

void RelayedConnection::Begin(const std::string& received) {
  ReadFromGrpc();
  OnClientBytes(received);
}

void RelayedConnection::Close() {
  if (closed_) return;
  closed_ = true;
  pause_timer_.cancel();
  write_deadline_.cancel();
  Error ignored;
  client_socket_.close(ignored);
  grpc_socket_.close(ignored);
  const std::shared_ptr<RelayedConnection> self = std::move(*list_position_);  // The list may hold the last reference.
  (authenticated_ ? connections_.authenticated : connections_.unauthenticated).erase(list_position_);
}

void RelayedConnection::ReadFromClient() {
  client_socket_.async_read_some(asio::buffer(from_client_),
                                 [self = shared_from_this()](Error error, size_t num_bytes) {
                                   if (self->closed_) return;
                                   if (error) return self->Close();
                                   self->OnClientBytes(std::string_view(self->from_client_.data(), num_bytes));
                                 });
}

void RelayedConnection::OnClientBytes(std::string_view bytes) {
  if (authenticated_) {
    to_grpc_ = bytes;
  } else if (!Scan(bytes)) {
    connections_.dependencies.on_closed(CloseReason::kMalformed);
    return Close();
  }
  WriteToGrpc();
}

bool RelayedConnection::Scan(std::string_view bytes) {
  const Clock::time_point now = Clock::now();
  pause_ = byte_bucket_.Take(static_cast<double>(bytes.size()), now);
  if (pause_ <= Clock::duration::zero()) flood_began_.reset();
  if (pause_ > Clock::duration::zero() && now - flood_began_.emplace(flood_began_.value_or(now)) > kLongestFlood) {
    return false;
  }
  scanner_.Append(bytes);
  while (!authenticated_) {
    const absl::StatusOr<std::optional<Http2Unit>> unit = scanner_.Next();
    if (!unit.ok()) return false;
    if (!unit->has_value()) return true;
    if (!Admit(**unit)) return false;
  }
  to_grpc_ += scanner_.TakeRest();
  return true;
}

bool RelayedConnection::Admit(const Http2Unit& unit) {
  to_grpc_ += unit.bytes;
  if (unit.kind == Http2Unit::Kind::kCall) {
    if (connections_.dependencies.authenticate(unit.authorization).ok()) {
      BecomeAuthenticated();
      return true;
    }
    const Clock::duration debt = call_bucket_.Take(1, Clock::now());
    if (debt > kLongestDebt) return false;
    pause_ = std::max(pause_, debt);
    (unit.path == kWatch ? open_watches_ : open_calls_).insert(unit.stream_id);
  }
  if (unit.kind != Http2Unit::Kind::kPreface) {
    const bool sends_no_more =
        (unit.type == FrameType::kData || unit.type == FrameType::kHeaders) && (unit.flags & kFlagEndStream) != 0;
    // Check calls end soon after END_STREAM. Watch calls continue.
    if (unit.type == FrameType::kResetStream) open_watches_.erase(unit.stream_id);
    if (unit.type == FrameType::kResetStream || sends_no_more) open_calls_.erase(unit.stream_id);
  }
  return open_calls_.size() + open_watches_.size() <= kMaxOpenStreams && open_watches_.size() <= kMaxWatches;
}

void RelayedConnection::BecomeAuthenticated() {
  authenticated_ = true;
  pause_ = {};
  connections_.authenticated.splice(connections_.authenticated.end(), connections_.unauthenticated, list_position_);
}

void RelayedConnection::WriteToGrpc() {
  asio::async_write(grpc_socket_, asio::buffer(to_grpc_), [self = shared_from_this()](Error error, size_t) {
    if (self->closed_) return;
    if (error) return self->Close();
    self->to_grpc_.clear();
    if (self->pause_ <= Clock::duration::zero()) return self->ReadFromClient();
    self->pause_timer_.expires_after(self->pause_);
    self->pause_timer_.async_wait([self](Error cancelled) {
      if (!cancelled && !self->closed_) self->ReadFromClient();
    });
  });
}

void RelayedConnection::ReadFromGrpc() {
  grpc_socket_.async_read_some(asio::buffer(from_grpc_), [self = shared_from_this()](Error error, size_t num_bytes) {
    if (self->closed_) return;
    if (error) return self->Close();
    self->WriteToClient(num_bytes);
  });
}

void RelayedConnection::WriteToClient(size_t num_bytes) {
  if (!authenticated_) {
    write_deadline_.expires_after(kWriteTime);
    write_deadline_.async_wait([self = shared_from_this()](Error cancelled) {
      if (!cancelled && !self->authenticated_) self->Close();
    });
  }
  asio::async_write(client_socket_, asio::buffer(from_grpc_.data(), num_bytes),
                    [self = shared_from_this()](Error error, size_t) {
                      if (self->closed_) return;
                      self->write_deadline_.cancel();
                      if (error) return self->Close();
                      self->ReadFromGrpc();
                    });
}

}  // namespace maxsim::gate
