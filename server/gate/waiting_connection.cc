#include "server/gate/waiting_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "server/gate/relay.h"

namespace maxsim::gate {
namespace {

constexpr std::string_view kHealthService = "/grpc.health.v1.Health/";

// Frames that a client may send beside its first call: SETTINGS, WINDOW_UPDATE, PRIORITY. Honest clients send some 100
// bytes of them.
constexpr size_t kMaxPassedOnBytes = 32 * 1024;
// Calls without a known token that one connection may make. Each gets its answer.
constexpr int kMaxRefusedCalls = 32;
// Frames of any kind before the first call with a token. Each costs the gate's thread some microseconds; honest clients
// send ten.
constexpr int kMaxFrames = 1000;
// What a client may still send after GOAWAY: twice the window of a connection.
constexpr size_t kMaxDroppedBytes = 128 * 1024;
// How long a connection goes on after its first refused call, for those that are on their way.
constexpr std::chrono::seconds kRefusedTime(2);
// What a client has to read GOAWAY before the connection is closed.
constexpr std::chrono::milliseconds kEndingTime(500);

}  // namespace

WaitingConnection::WaitingConnection(Visitors* visitors, Socket socket, Peer peer, Wanted wanted)
    : visitors_(*visitors),
      socket_(std::move(socket)),
      deadline_(visitors->loop),
      peer_(std::move(peer)),
      wanted_(wanted) {}

void WaitingConnection::Start() {
  place_ = visitors_.waiting.insert(visitors_.waiting.end(), shared_from_this());
  ExpireAfter(absl::ToChronoNanoseconds(visitors_.options.first_call_timeout));
  if (wanted_ == Wanted::kFirstByte) {
    // The byte stays where it is: TLS is gRPC's.
    socket_.async_wait(Socket::wait_read, [self = shared_from_this()](Error error) {
      if (self->state_ != State::kReading) return;
      error ? self->Close() : self->HandOver();
    });
    return;
  }
  // A client may wait for the server's SETTINGS before it makes a call. Those of gRPC will follow.
  if (wanted_ == Wanted::kToken) Send(EmptySettings());
  if (state_ == State::kReading) AwaitBytes();
}

void WaitingConnection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  deadline_.cancel();
  Error ignored;
  socket_.close(ignored);
  const std::shared_ptr<WaitingConnection> self = std::move(*place_);  // The list may hold the last reference.
  visitors_.waiting.erase(place_);
}

void WaitingConnection::AwaitBytes() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](Error error) {
    if (self->state_ == State::kClosed) return;
    error ? self->Close() : self->Read();
  });
}

void WaitingConnection::Read() {
  const ssize_t size = recv(socket_.native_handle(), visitors_.scratch.data(), visitors_.scratch.size(), MSG_DONTWAIT);
  if (size > 0) return OnBytes(std::string_view(visitors_.scratch.data(), static_cast<size_t>(size)));
  size < 0 && (errno == EAGAIN || errno == EINTR) ? AwaitBytes() : Close();
}

void WaitingConnection::OnBytes(std::string_view bytes) {
  if (state_ == State::kEnding) {
    // What still comes is dropped, so that the client reads why before it meets a closed connection.
    num_dropped_bytes_ += bytes.size();
    return num_dropped_bytes_ > kMaxDroppedBytes ? Close() : AwaitBytes();
  }
  scanner_.Append(bytes);
  if (Proceed()) AwaitBytes();
}

bool WaitingConnection::Proceed() {
  while (true) {
    absl::StatusOr<std::optional<Unit>> unit = scanner_.Next();
    if (!unit.ok()) {
      End(Ending::kMalformed, ErrorCode::kProtocolError);
      return state_ == State::kEnding;
    }
    if (!unit->has_value()) return true;
    const bool is_preface = (*unit)->kind == Unit::Kind::kPreface;
    const bool is_call = (*unit)->kind == Unit::Kind::kCall;
    if (is_preface) passed_on_ += (*unit)->bytes;
    if (is_preface && wanted_ == Wanted::kPreface) {
      HandOver();
      return false;
    }
    if (is_call && !OnCall(**unit)) return state_ == State::kEnding;
    if (!is_call && !is_preface && !OnFrame(**unit)) return state_ == State::kEnding;
  }
}

bool WaitingConnection::OnCall(const Unit& unit) {
  const absl::Status allowed = visitors_.dependencies.authenticate(unit.authorization);
  const bool is_health = unit.path.compare(0, kHealthService.size(), kHealthService) == 0;
  if (!allowed.ok() && !is_health) return RefuseCall(unit, allowed);
  if (last_refused_ != 0) {
    // gRPC could not read this call: HPACK's table holds what the refused ones brought. The client makes it again on
    // another connection.
    End(Ending::kUnauthenticated, ErrorCode::kNoError);
    return false;
  }
  passed_on_ += unit.bytes;
  allowed.ok() ? HandOver() : StartRelay();
  return false;
}

bool WaitingConnection::OnFrame(const Unit& unit) {
  if (++num_frames_ > kMaxFrames) {
    End(Ending::kMalformed, ErrorCode::kEnhanceYourCalm);
    return false;
  }
  switch (unit.type) {
    case FrameType::kPing:
      if ((unit.flags & kFlagAck) == 0) Send(PingAck(unit.payload()));
      return state_ == State::kReading;
    case FrameType::kSettings:
      // The first acknowledgement is for the gate's own frame.
      if ((unit.flags & kFlagAck) != 0 && !std::exchange(settings_acknowledged_, true)) return true;
      break;
    case FrameType::kData:
      // A refused call's message. The room that it took must be there for the next.
      if (!unit.payload().empty()) Send(WindowUpdate(0, static_cast<uint32_t>(unit.payload().size())));
      return state_ == State::kReading;
    case FrameType::kHeaders:
    case FrameType::kResetStream:
      return true;  // They belong to refused calls too.
    case FrameType::kGoaway:
      Close();
      return false;
    default:
      break;
  }
  passed_on_ += unit.bytes;
  if (passed_on_.size() <= kMaxPassedOnBytes) return true;
  End(Ending::kMalformed, ErrorCode::kEnhanceYourCalm);
  return false;
}

bool WaitingConnection::RefuseCall(const Unit& unit, const absl::Status& why) {
  visitors_.dependencies.on_refused_call(unit.path, why);
  if (last_refused_ == 0) {
    // Calls that are on their way get their answers; new ones go to another connection, which a proxy shares among
    // clients: this one could not be given to gRPC any more.
    Send(Goaway(kMaxStreamId, ErrorCode::kNoError));
    ExpireAfter(kRefusedTime);
  }
  last_refused_ = unit.stream_id;
  Send(RefusedCall(unit.stream_id, why));
  if (++num_refused_ < kMaxRefusedCalls) return state_ == State::kReading;
  End(Ending::kUnauthenticated, ErrorCode::kNoError);
  return false;
}

int WaitingConnection::GiveAway() {
  state_ = State::kClosed;
  deadline_.cancel();
  visitors_.waiting.erase(place_);
  passed_on_ += scanner_.TakeRest();
  Error error;
  const int fd = socket_.release(error);
  return error ? -1 : fd;
}

void WaitingConnection::HandOver() {
  const std::shared_ptr<WaitingConnection> self = shared_from_this();  // The list may hold the last reference.
  const int fd = GiveAway();
  if (fd >= 0) visitors_.hand_over(fd, peer_, passed_on_, /*tls=*/wanted_ == Wanted::kFirstByte);
}

void WaitingConnection::StartRelay() {
  const std::shared_ptr<WaitingConnection> self = shared_from_this();
  const int family = peer_.host.empty() ? AF_UNIX : AF_INET6;
  const int fd = GiveAway();
  if (fd < 0) return;
  // It scans what has come once more, for the dynamic table of HPACK.
  Relay::Start(&visitors_, MakeSocket(visitors_.loop, family, fd), peer_, passed_on_);
}

void WaitingConnection::End(Ending ending, ErrorCode code) {
  if (state_ != State::kReading) return;
  visitors_.dependencies.on_ended(ending);
  if (wanted_ == Wanted::kToken) Send(Goaway(last_refused_, code));
  if (state_ == State::kClosed) return;
  if (wanted_ != Wanted::kToken) return Close();
  state_ = State::kEnding;
  Error ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  ExpireAfter(kEndingTime);
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
  if (state_ == State::kEnding) return Close();
  End(last_refused_ == 0 ? Ending::kTimeout : Ending::kUnauthenticated, ErrorCode::kNoError);
}

}  // namespace maxsim::gate
