#include "server/gate/waiting_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "server/gate/relayed_connection.h"

namespace maxsim::gate {
namespace {

constexpr std::string_view kHealthService = "/grpc.health.v1.Health/";

// Maximum number of bytes that are kept for gRPC before the first call with a token: the preface and frames of the
// types SETTINGS, WINDOW_UPDATE and PRIORITY. Honest clients send about 100 bytes of these.
constexpr size_t kMaxBytesForGrpc = 32 * 1024;
// Maximum number of calls without a known token, which all get errors.
constexpr int kMaxRefusedCalls = 32;
// Maximum number of frames before the first call with a token, not counting frames that begin a call. Each frame
// costs the gate's thread some microseconds. Honest clients send about ten.
constexpr int kMaxFrames = 1000;
// Maximum bytes that are read after GOAWAY: twice a connection's window.
constexpr size_t kMaxDroppedBytes = 128 * 1024;
// How long a connection stays open after a refused call, to refuse others.
constexpr std::chrono::seconds kRefusedTime(2);
// The time that a client has to read GOAWAY before the connection is closed.
constexpr std::chrono::milliseconds kClosingTime(500);

}  // namespace

WaitingConnection::WaitingConnection(GateConnections* connections, Socket socket, Peer peer,
                                     HandOverAfter hand_over_after)
    : connections_(*connections),
      socket_(std::move(socket)),
      deadline_(connections->loop),
      peer_(std::move(peer)),
      hand_over_after_(hand_over_after) {}

void WaitingConnection::Start() {
  list_position_ = connections_.waiting.insert(connections_.waiting.end(), shared_from_this());
  ExpireAfter(absl::ToChronoNanoseconds(connections_.options.first_call_timeout));
  if (hand_over_after_ == HandOverAfter::kFirstByte) {
    // Wait for the first byte, but leave it for gRPC, which does the handshake.
    socket_.async_wait(Socket::wait_read, [self = shared_from_this()](Error error) {
      if (self->state_ != State::kReading) return;
      error ? self->Close() : self->HandOver();
    });
    return;
  }
  // Send SETTINGS: a client may wait for them. gRPC will send its own later.
  if (hand_over_after_ == HandOverAfter::kAuthenticatedCall) {
    Send(Settings(connections_.options.max_concurrent_streams));
  }
  if (state_ == State::kReading) AwaitBytes();
}

void WaitingConnection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  deadline_.cancel();
  Error ignored;
  socket_.close(ignored);
  const std::shared_ptr<WaitingConnection> self = std::move(*list_position_);  // The list may hold the last reference.
  connections_.waiting.erase(list_position_);
}

void WaitingConnection::AwaitBytes() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](Error error) {
    if (self->state_ == State::kClosed) return;
    error ? self->Close() : self->Read();
  });
}

void WaitingConnection::Read() {
  const ssize_t size =
      recv(socket_.native_handle(), connections_.scratch.data(), connections_.scratch.size(), MSG_DONTWAIT);
  if (size > 0) return OnBytes(std::string_view(connections_.scratch.data(), static_cast<size_t>(size)));
  size < 0 && (errno == EAGAIN || errno == EINTR) ? AwaitBytes() : Close();
}

void WaitingConnection::OnBytes(std::string_view bytes) {
  if (state_ == State::kClosing) {
    // Read and drop the bytes that still come. Closing a socket with unread bytes would reset the connection, and the
    // client might never read the GOAWAY.
    num_dropped_bytes_ += bytes.size();
    return num_dropped_bytes_ > kMaxDroppedBytes ? Close() : AwaitBytes();
  }
  scanner_.Append(bytes);
  if (Proceed()) AwaitBytes();
}

bool WaitingConnection::Proceed() {
  while (true) {
    absl::StatusOr<std::optional<Http2Unit>> unit = scanner_.Next();
    if (!unit.ok()) {
      End(CloseReason::kMalformed, ErrorCode::kProtocolError);
      return state_ == State::kClosing;
    }
    if (!unit->has_value()) return true;
    const bool is_preface = (*unit)->kind == Http2Unit::Kind::kPreface;
    const bool is_call = (*unit)->kind == Http2Unit::Kind::kCall;
    if (is_preface) bytes_for_grpc_ += (*unit)->bytes;
    if (is_preface && hand_over_after_ == HandOverAfter::kPreface) {
      HandOver();
      return false;
    }
    if (is_call && !OnCall(**unit)) return state_ == State::kClosing;
    if (!is_call && !is_preface && !OnFrame(**unit)) return state_ == State::kClosing;
  }
}

bool WaitingConnection::OnCall(const Http2Unit& unit) {
  const absl::Status allowed = connections_.dependencies.authenticate(unit.authorization);
  const bool is_health = unit.path.compare(0, kHealthService.size(), kHealthService) == 0;
  if (!allowed.ok() && !is_health) return RefuseCall(unit, allowed);
  if (last_refused_ != 0) {
    // gRPC could not decode this call: its headers may refer to entries that refused calls added to HPACK's table, and
    // gRPC never saw those calls. The client will repeat the call on another connection.
    End(CloseReason::kUnauthenticated, ErrorCode::kNoError);
    return false;
  }
  bytes_for_grpc_ += unit.bytes;
  allowed.ok() ? HandOver() : Relay();
  return false;
}

bool WaitingConnection::OnFrame(const Http2Unit& unit) {
  if (++num_frames_ > kMaxFrames) {
    End(CloseReason::kMalformed, ErrorCode::kEnhanceYourCalm);
    return false;
  }
  switch (unit.type) {
    case FrameType::kPing:
      if ((unit.flags & kFlagAck) == 0) Send(PingAck(unit.payload()));
      return state_ == State::kReading;
    case FrameType::kSettings:
      // The first acknowledgement is for the gate's SETTINGS. gRPC must not see it.
      if ((unit.flags & kFlagAck) != 0 && !std::exchange(settings_acknowledged_, true)) return true;
      break;
    case FrameType::kData:
      // These are bytes of a refused call's message. Give them back to the connection's flow-control window, so that
      // the next call fits.
      if (!unit.payload().empty()) Send(WindowUpdate(0, static_cast<uint32_t>(unit.payload().size())));
      return state_ == State::kReading;
    case FrameType::kHeaders:
    case FrameType::kResetStream:
      return true;  // They belong to refused calls.
    case FrameType::kGoaway:
      Close();
      return false;
    default:
      break;
  }
  bytes_for_grpc_ += unit.bytes;
  if (bytes_for_grpc_.size() <= kMaxBytesForGrpc) return true;
  End(CloseReason::kMalformed, ErrorCode::kEnhanceYourCalm);
  return false;
}

bool WaitingConnection::RefuseCall(const Http2Unit& unit, const absl::Status& why) {
  connections_.dependencies.on_refused_call(unit.path, why);
  if (last_refused_ == 0) {
    // This connection can no longer be handed to gRPC. GOAWAY makes clients (a proxy may share the connection among
    // several) send new calls on another connection. Calls that are already on their way are still answered.
    Send(Goaway(kMaxStreamId, ErrorCode::kNoError));
    ExpireAfter(kRefusedTime);
  }
  last_refused_ = unit.stream_id;
  Send(RefusedCall(unit.stream_id, why));
  if (++num_refused_ < kMaxRefusedCalls) return state_ == State::kReading;
  End(CloseReason::kUnauthenticated, ErrorCode::kNoError);
  return false;
}

OwnedFd WaitingConnection::ReleaseSocket() {
  state_ = State::kClosed;
  deadline_.cancel();
  connections_.waiting.erase(list_position_);
  bytes_for_grpc_ += scanner_.TakeRest();
  Error error;
  const int fd = socket_.release(error);
  return OwnedFd(error ? -1 : fd);
}

void WaitingConnection::HandOver() {
  const std::shared_ptr<WaitingConnection> self = shared_from_this();  // The list may hold the last reference.
  OwnedFd fd = ReleaseSocket();
  if (fd.get() < 0) return;
  connections_.hand_over(std::move(fd), peer_, bytes_for_grpc_,
                         /*tls=*/hand_over_after_ == HandOverAfter::kFirstByte);
}

void WaitingConnection::Relay() {
  const std::shared_ptr<WaitingConnection> self = shared_from_this();  // The list may hold the last reference.
  const int family = peer_.host.empty() ? AF_UNIX : AF_INET6;
  OwnedFd fd = ReleaseSocket();
  if (fd.get() < 0) return;
  // The relay scans these bytes again, to build up its own dynamic table of HPACK.
  RelayedConnection::Start(&connections_, MakeSocket(connections_.loop, family, std::move(fd)), peer_, bytes_for_grpc_);
}

void WaitingConnection::Drain() {
  if (hand_over_after_ == HandOverAfter::kFirstByte) return Close();
  // A server's first frame must be SETTINGS, so send them before GOAWAY.
  if (hand_over_after_ == HandOverAfter::kPreface) Send(Settings(connections_.options.max_concurrent_streams));
  SendGoawayAndClose(ErrorCode::kNoError);
}

void WaitingConnection::End(CloseReason reason, ErrorCode code) {
  if (state_ != State::kReading) return;
  connections_.dependencies.on_closed(reason);
  hand_over_after_ == HandOverAfter::kAuthenticatedCall ? SendGoawayAndClose(code) : Close();
}

void WaitingConnection::SendGoawayAndClose(ErrorCode code) {
  if (state_ != State::kReading) return;
  Send(Goaway(last_refused_, code));
  if (state_ == State::kClosed) return;
  state_ = State::kClosing;
  Error ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  ExpireAfter(kClosingTime);
}

void WaitingConnection::ExpireAfter(std::chrono::nanoseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([self = shared_from_this()](Error error) { self->OnTimeout(error); });
}

void WaitingConnection::Send(std::string_view bytes) {
  if (state_ != State::kReading) return;
  const ssize_t sent = send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) Close();
}

void WaitingConnection::OnTimeout(Error error) {
  if (error || state_ == State::kClosed) return;
  if (state_ == State::kClosing) return Close();
  End(last_refused_ == 0 ? CloseReason::kTimeout : CloseReason::kUnauthenticated, ErrorCode::kNoError);
}

}  // namespace maxsim::gate
