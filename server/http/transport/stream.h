// The byte stream of one connection, in plain text or through TLS, with the same interface for both. Internal to
// server/http.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "server/http/transport/tls_session.h"

namespace maxsim::http {

// All members run on the thread of the event loop. So do handlers, never within the call that they were passed to. The
// owner must ensure that the stream outlives its operations. At most one operation and one wait may be in flight.
class Stream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;
  using Error = boost::system::error_code;
  enum class Ahead { kNothing, kBytes, kEnd };

  explicit Stream(Socket socket) : socket_(std::move(socket)) {}

  executor_type get_executor() { return socket_.get_executor(); }

  // Returns the socket below TLS, for operations that are the same with and without TLS.
  Socket& socket() { return socket_; }

  // Switches the rest of the connection to TLS. Nothing may be read or written before the session's handshake. Throws
  // std::bad_alloc.
  void Encrypt(const TlsContext& context) { session_ = std::make_unique<TlsSession>(context, socket_.native_handle()); }
  // Returns null in plain text.
  TlsSession* session() const { return session_.get(); }

  // Calls `handler(Error)` once there is a byte to read, or the peer has ended the stream.
  template <typename Handler>
  void AsyncWaitRead(Handler handler) {
    if (session_ == nullptr) return socket_.async_wait(Socket::wait_read, std::move(handler));
    // If the stream has ended, the wait succeeds, and the next read reports the end.
    const auto peek = [this] {
      const Result result = session_->Peek();
      return result == Result::kEnded ? Result::kDone : result;
    };
    Repeat(peek, std::move(handler));
  }

  // Returns what the next read would find now.
  Ahead Peek() {
    if (session_ != nullptr) {
      const Result result = session_->Peek();
      if (result == Result::kDone) return Ahead::kBytes;
      return result == Result::kEnded ? Ahead::kEnd : Ahead::kNothing;
    }
    char byte = 0;
    const ssize_t size = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (size > 0) return Ahead::kBytes;
    return size < 0 && (errno == EAGAIN || errno == EINTR) ? Ahead::kNothing : Ahead::kEnd;
  }

  // Reads some bytes into the buffer, and then calls `handler(Error, size_t)`. If the stream has ended, the error is
  // eof.
  template <typename Handler>
  void AsyncReadSome(boost::asio::mutable_buffer buffer, Handler handler) {
    if (session_ == nullptr) return socket_.async_read_some(buffer, std::move(handler));
    RepeatSized([this, buffer] { return ReadRecords(buffer); }, std::move(handler));
  }

  // Writes some bytes: Asio and Beast call it by this name.
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Error, size_t)>(
        [](auto handler, Stream* self, const Buffers& what) { self->Write(what, std::move(handler)); }, token, this,
        buffers);
  }

  // Tells the peer that no more data follows.
  void FinishSending() {
    if (session_ != nullptr) session_->SendEnd();
    Error ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }

  // Ends the operations in flight.
  void Close() {
    if (session_ != nullptr) {
      session_->SendEnd();
      session_->Detach();
    }
    Error ignored;
    socket_.close(ignored);
  }

 private:
  using Result = TlsSession::Result;
  static constexpr size_t kRecordBytes = 16 * 1024;  // the largest record of TLS

  // Reads the records that have been received, as far as the buffer has room.
  Result ReadRecords(boost::asio::mutable_buffer buffer) {
    Result result = Result::kDone;
    while (result == Result::kDone && size_ < buffer.size()) {
      size_t num_read = 0;
      const boost::asio::mutable_buffer rest = buffer + size_;
      result = session_->Read(rest.data(), rest.size(), &num_read);
      size_ += num_read;
    }
    return size_ > 0 ? Result::kDone : result;
  }

  template <typename Buffers, typename Handler>
  void Write(const Buffers& buffers, Handler handler) {
    if (session_ == nullptr) return socket_.async_write_some(buffers, std::move(handler));
    // Puts a header and the beginning of its body into one record.
    RepeatSized(
        [this, buffers] {
          std::array<char, kRecordBytes> record;
          const size_t wanted = boost::asio::buffer_copy(boost::asio::buffer(record), buffers);
          return wanted == 0 ? Result::kDone : session_->Write(record.data(), wanted, &size_);
        },
        std::move(handler));
  }

  // Repeats `attempt` until it does not have to wait for the socket; then calls the handler.
  template <typename Attempt, typename Handler>
  void Repeat(Attempt attempt, Handler handler, bool is_first = true) {
    const Result result = attempt();
    if (result == Result::kWantsRead || result == Result::kWantsWrite) {
      return socket_.async_wait(
          result == Result::kWantsRead ? Socket::wait_read : Socket::wait_write,
          [this, attempt = std::move(attempt), handler = std::move(handler)](Error error) mutable {
            error ? handler(error) : Repeat(std::move(attempt), std::move(handler), /*is_first=*/false);
          });
    }
    const Error error =
        result == Result::kDone ? Error() : boost::asio::error::make_error_code(boost::asio::error::eof);
    if (!is_first) return handler(error);
    boost::asio::post(get_executor(), [error, handler = std::move(handler)]() mutable { handler(error); });
  }

  template <typename Attempt, typename Handler>
  void RepeatSized(Attempt attempt, Handler handler) {
    size_ = 0;
    Repeat(std::move(attempt), [this, handler = std::move(handler)](Error error) mutable { handler(error, size_); });
  }

  Socket socket_;
  std::unique_ptr<TlsSession> session_;
  size_t size_ = 0;  // bytes of the operation in flight, with a session
};

}  // namespace maxsim::http
