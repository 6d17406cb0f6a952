#include "server/http/transport/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace maxsim::http {

// Reads and writes the socket for OpenSSL. OpenSSL's own BIO for sockets is not used, because it raises SIGPIPE if
// the peer has closed the connection.
struct TlsSession::Socket {
  static BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
      if (made == nullptr) throw std::bad_alloc();
      BIO_meth_set_read_ex(made, &Socket::Read);
      BIO_meth_set_write_ex(made, &Socket::Write);
      BIO_meth_set_ctrl(made, &Socket::Control);
      return made;
    }();
    return method;
  }

  static int SocketOf(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

  static int Read(BIO* bio, char* data, size_t size, size_t* num_read) {
    BIO_clear_retry_flags(bio);
    const ssize_t received = recv(SocketOf(bio), data, size, 0);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (received == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    if (received <= 0) return 0;
    *num_read = static_cast<size_t>(received);
    return 1;
  }

  static int Write(BIO* bio, const char* data, size_t size, size_t* num_written) {
    BIO_clear_retry_flags(bio);
    const ssize_t sent = send(SocketOf(bio), data, size, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    if (sent <= 0) return 0;
    *num_written = static_cast<size_t>(sent);
    return 1;
  }

  static long Control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
};

void TlsSession::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsSession::TlsSession(const TlsContext& context, int socket) : socket_(socket), ssl_(SSL_new(context.get())) {
  BIO* const bio = BIO_new(Socket::Method());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    throw std::bad_alloc();
  }
  BIO_set_data(bio, &socket_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_accept_state(ssl_.get());
}

TlsSession::~TlsSession() = default;

TlsSession::Result TlsSession::Handshake() {
  ERR_clear_error();
  const Result result = ResultOf(SSL_do_handshake(ssl_.get()));
  is_open_ = result == Result::kDone;
  return result;
}

TlsSession::Result TlsSession::Read(void* data, size_t size, size_t* num_read) {
  ERR_clear_error();
  return ResultOf(SSL_read_ex(ssl_.get(), data, size, num_read));
}

TlsSession::Result TlsSession::Peek() {
  char byte = 0;
  size_t num_read = 0;
  ERR_clear_error();
  return ResultOf(SSL_peek_ex(ssl_.get(), &byte, 1, &num_read));
}

TlsSession::Result TlsSession::Write(const void* data, size_t size, size_t* num_written) {
  ERR_clear_error();
  return ResultOf(SSL_write_ex(ssl_.get(), data, size, num_written));
}

void TlsSession::SendEnd() {
  if (!is_open_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

bool TlsSession::has_client_certificate() const {
  X509* const certificate = SSL_get1_peer_certificate(ssl_.get());
  X509_free(certificate);
  return certificate != nullptr && SSL_get_verify_result(ssl_.get()) == X509_V_OK;
}

void TlsSession::SetReason(const char* reason) {
  try {
    reason_ = reason;
  } catch (const std::bad_alloc&) {
    reason_.clear();  // the reason is only for a log line, and a handshake's thread must not throw
  }
}

TlsSession::Result TlsSession::ResultOf(int returned) {
  if (returned == 1) return Result::kDone;
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return Result::kWantsRead;
    case SSL_ERROR_WANT_WRITE:
      return Result::kWantsWrite;
    case SSL_ERROR_ZERO_RETURN:
      SetReason("the client sends no more");
      break;
    case SSL_ERROR_SYSCALL:
      is_open_ = false;
      SetReason(std::strerror(system_error));
      break;
    default: {
      is_open_ = false;
      const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
      SetReason(reason == nullptr ? "no reason given" : reason);
    }
  }
  ERR_clear_error();
  return Result::kEnded;
}

}  // namespace maxsim::http
