#include "server/gate/relay.h"

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
#include "server/gate/listeners.h"
#include "server/gate/relayed_peer.h"

namespace maxsim::gate {
namespace {

namespace asio = boost::asio;

// What a client without a token may do. A balancer that checks the health of a server makes a call every few seconds,
// of some 200 bytes; a client that checks it makes one Watch.
constexpr double kCallsPerSecond = 5;
constexpr double kCallsBurst = 20;
constexpr double kBytesPerSecond = 16 * 1024;
constexpr double kBytesBurst = 64 * 1024;
constexpr size_t kMaxOpenStreams = 16;
constexpr size_t kMaxWatches = 4;
constexpr std::string_view kWatch = "/grpc.health.v1.Health/Watch";

// Relayed connections without a known token. Each takes three descriptors; one more takes the place of the oldest.
constexpr size_t kMaxUnproven = 64;

// How far behind the bound of their rate calls are let through before the connection ends. What a client has sent by
// then is in hand, and waiting does not undo it.
constexpr std::chrono::seconds kLongestDebt(4);

// How long a client may send more bytes than their rate without a pause. Ending its connection also finds out that it
// has hung up, which would otherwise be noticed only behind all that it has sent.
constexpr std::chrono::seconds kLongestFlood(10);

// Without a token only, since a client that has one may be slow.
constexpr std::chrono::seconds kWriteTime(10);

// Names `fd` after the client, so that the other end of its pair sees the address. Without a name all relayed clients
// would be one for fairness, and nothing else would differ.
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

RateBound::Clock::duration RateBound::Take(double amount, Clock::time_point now) {
  if (last_ != Clock::time_point()) {
    const double seconds = std::chrono::duration<double>(now - last_).count();
    left_ = std::min(burst_, left_ + seconds * per_second_);
  }
  last_ = now;
  left_ -= amount;
  if (left_ >= 0) return Clock::duration::zero();
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-left_ / per_second_));
}

void Relay::Start(Visitors* visitors, Socket client, const Peer& peer, const std::string& received) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    visitors->dependencies.on_ended(Ending::kFull);
    return;
  }
  OwnedFd grpcs_end(ends[1]);
  NameAfter(ends[0], peer);
  auto relay = std::make_shared<Relay>(visitors, std::move(client), MakeSocket(visitors->loop, AF_UNIX, ends[0]), peer);
  relay->place_ = visitors->unproven.insert(visitors->unproven.end(), relay);
  while (visitors->unproven.size() > kMaxUnproven) {
    visitors->unproven.front()->Close();
    visitors->dependencies.on_ended(Ending::kFull);
  }
  visitors->dependencies.hand_over(grpcs_end.Release(), "", /*tls=*/false);
  relay->Begin(received);
}

Relay::Relay(Visitors* visitors, Socket client, Socket inside, Peer peer)
    : visitors_(*visitors),
      client_(std::move(client)),
      inside_(std::move(inside)),
      peer_(std::move(peer)),
      calls_(kCallsPerSecond, kCallsBurst),
      bytes_(kBytesPerSecond, kBytesBurst),
      pause_timer_(visitors->loop),
      write_deadline_(visitors->loop) {}

void Relay::Begin(const std::string& received) {
  ReadInside();
  OnClientBytes(received);
}

void Relay::Close() {
  if (closed_) return;
  closed_ = true;
  pause_timer_.cancel();
  write_deadline_.cancel();
  Error ignored;
  client_.close(ignored);
  inside_.close(ignored);
  const std::shared_ptr<Relay> self = std::move(*place_);  // The list may hold the last reference.
  (proven_ ? visitors_.proven : visitors_.unproven).erase(place_);
}

void Relay::ReadClient() {
  client_.async_read_some(asio::buffer(from_client_), [self = shared_from_this()](Error error, size_t num_bytes) {
    if (self->closed_) return;
    if (error) return self->Close();
    self->OnClientBytes(std::string_view(self->from_client_.data(), num_bytes));
  });
}

void Relay::OnClientBytes(std::string_view bytes) {
  if (proven_) {
    to_inside_ = bytes;
  } else if (!Scan(bytes)) {
    visitors_.dependencies.on_ended(Ending::kMalformed);
    return Close();
  }
  WriteInside();
}

bool Relay::Scan(std::string_view bytes) {
  const Clock::time_point now = Clock::now();
  pause_ = bytes_.Take(static_cast<double>(bytes.size()), now);
  if (pause_ <= Clock::duration::zero()) flood_began_.reset();
  if (pause_ > Clock::duration::zero() && now - flood_began_.emplace(flood_began_.value_or(now)) > kLongestFlood) {
    return false;
  }
  scanner_.Append(bytes);
  while (!proven_) {
    const absl::StatusOr<std::optional<Unit>> unit = scanner_.Next();
    if (!unit.ok()) return false;
    if (!unit->has_value()) return true;
    if (!Admit(**unit)) return false;
  }
  to_inside_ += scanner_.TakeRest();
  return true;
}

bool Relay::Admit(const Unit& unit) {
  to_inside_ += unit.bytes;
  if (unit.kind == Unit::Kind::kCall) {
    if (visitors_.dependencies.authenticate(unit.authorization).ok()) {
      BecomeProven();
      return true;
    }
    const Clock::duration debt = calls_.Take(1, Clock::now());
    if (debt > kLongestDebt) return false;
    pause_ = std::max(pause_, debt);
    (unit.path == kWatch ? open_watches_ : open_calls_).insert(unit.stream_id);
  }
  if (unit.kind != Unit::Kind::kPreface) {
    const bool sends_no_more =
        (unit.type == FrameType::kData || unit.type == FrameType::kHeaders) && (unit.flags & kFlagEndStream) != 0;
    // A Watch goes on when its client has said everything; Check is answered then.
    if (unit.type == FrameType::kResetStream) open_watches_.erase(unit.stream_id);
    if (unit.type == FrameType::kResetStream || sends_no_more) open_calls_.erase(unit.stream_id);
  }
  return open_calls_.size() + open_watches_.size() <= kMaxOpenStreams && open_watches_.size() <= kMaxWatches;
}

void Relay::BecomeProven() {
  proven_ = true;
  pause_ = {};
  visitors_.proven.splice(visitors_.proven.end(), visitors_.unproven, place_);
}

void Relay::WriteInside() {
  asio::async_write(inside_, asio::buffer(to_inside_), [self = shared_from_this()](Error error, size_t) {
    if (self->closed_) return;
    if (error) return self->Close();
    self->to_inside_.clear();
    if (self->pause_ <= Clock::duration::zero()) return self->ReadClient();
    self->pause_timer_.expires_after(self->pause_);
    self->pause_timer_.async_wait([self](Error cancelled) {
      if (!cancelled && !self->closed_) self->ReadClient();
    });
  });
}

void Relay::ReadInside() {
  inside_.async_read_some(asio::buffer(from_inside_), [self = shared_from_this()](Error error, size_t num_bytes) {
    if (self->closed_) return;
    if (error) return self->Close();
    self->WriteClient(num_bytes);
  });
}

void Relay::WriteClient(size_t num_bytes) {
  if (!proven_) {
    write_deadline_.expires_after(kWriteTime);
    write_deadline_.async_wait([self = shared_from_this()](Error cancelled) {
      if (!cancelled && !self->proven_) self->Close();
    });
  }
  asio::async_write(client_, asio::buffer(from_inside_.data(), num_bytes),
                    [self = shared_from_this()](Error error, size_t) {
                      if (self->closed_) return;
                      self->write_deadline_.cancel();
                      if (error) return self->Close();
                      self->ReadInside();
                    });
}

}  // namespace maxsim::gate
