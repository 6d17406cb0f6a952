// Finds out whether a new connection on a port with certificates is encrypted, and if so does its TLS handshake.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "base/text.h"
#include "server/http/transport/connection.h"
#include "server/http/transport/handshake_threads.h"
#include "server/observability/log_event.h"

namespace maxsim::http {
namespace {

namespace asio = boost::asio;

// Every TLS connection begins with a record of this type. No HTTP request begins with this byte.
constexpr char kHandshakeRecord = 0x16;

}  // namespace

// Passes the result of a handshake's step to the event loop. Allocates no memory, and keeps the loop running.
struct Connection::HandshakeStep {
  using allocator_type = SlotMemory::Allocator<std::byte>;

  allocator_type get_allocator() const { return allocator_type(&connection->delivery_memory_); }

  void operator()() {
    Connection& self = *connection;
    self.Guarded([&] { self.OnHandshakeStep(result); });
  }

  std::shared_ptr<Connection> connection;
  TlsSession::Result result;
  asio::executor_work_guard<asio::io_context::executor_type> work;
};

void Connection::AwaitFirstByte() {
  stream_.AsyncWaitRead([self = shared_from_this()](Error error) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->Close();
    self->Guarded([&] { self->OnFirstByte(); });
  });
}

void Connection::OnFirstByte() {
  char byte = 0;
  const ssize_t size = recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return AwaitFirstByte();
  size == 1 && byte == kHandshakeRecord ? BeginHandshake() : BeginRequest();
}

void Connection::BeginHandshake() {
  Enter(Phase::kHandshake, connections_.options().handshake_timeout);
  stream_.Encrypt(connections_.options().certificates->Current()->context);
  TakeHandshakeStep();
}

void Connection::TakeHandshakeStep() {
  auto step = [self = shared_from_this(), work = asio::make_work_guard(loop_)]() mutable {
    const TlsSession::Result result = self->stream_.session()->Handshake();
    // Posts the result to the loop, because the last reference to the connection may have to be released on the
    // loop's thread.
    asio::io_context& loop = self->loop_;
    asio::post(loop, HandshakeStep{std::move(self), result, std::move(work)});
  };
  handshake_step_ = connections_.handshakes->Add(peer_, std::move(step));
}

void Connection::OnHandshakeStep(TlsSession::Result result) {
  handshake_step_.reset();
  if (phase_ == Phase::kClosed) return stream_.Close();
  switch (result) {
    case TlsSession::Result::kDone: {
      // Many clients send their request only after their last handshake message has been acknowledged. The server
      // sends nothing now that would carry this acknowledgement, and without TCP_QUICKACK the kernel would delay it
      // by 40 ms.
      const int on = 1;
      setsockopt(stream_.socket().native_handle(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
      return AwaitRequest();
    }
    case TlsSession::Result::kEnded:
      log::Write(spdlog::level::debug, "http_handshake_failed",
                 {{"peer", PeerAddress()}, {"reason", stream_.session()->reason()}});
      return Close();
    case TlsSession::Result::kWantsRead:
    case TlsSession::Result::kWantsWrite:
      break;
  }
  const auto wait = result == TlsSession::Result::kWantsRead ? Stream::Socket::wait_read : Stream::Socket::wait_write;
  stream_.socket().async_wait(wait, [self = shared_from_this()](Error error) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->Close();
    self->Guarded([&] { self->TakeHandshakeStep(); });
  });
}

void Connection::CloseStream() {
  // A step that is running uses the socket, so the socket is closed at the end of that step.
  const bool runs = handshake_step_.has_value() && !connections_.handshakes->Remove(peer_, *handshake_step_);
  if (!runs) return stream_.Close();
  Error ignored;
  stream_.socket().shutdown(Stream::Socket::shutdown_both, ignored);
}

}  // namespace maxsim::http
