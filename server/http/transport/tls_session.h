// Speaks TLS as a server over a socket that does not block. Nothing here waits: the caller decides where to wait, and
// for how long. Internal to server/http.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "server/tls/tls_context.h"

struct ssl_st;  // OpenSSL's SSL

namespace maxsim::http {

// The class is used by one thread at a time.
class TlsSession {
 public:
  enum class Result {
    kDone,
    kWantsRead,   // call again once the socket has bytes ...
    kWantsWrite,  // ... or takes some
    kEnded,       // the peer has said that it sends no more, or the connection is of no further use
  };

  // Throws std::bad_alloc. The socket stays the caller's, and must be open until Detach.
  TlsSession(const TlsContext& context, int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Runs one step of the handshake. That may take as long as a signature, a millisecond or more; all else is short.
  Result Handshake();

  // Reads up to `size` bytes, and at least one if the result is kDone.
  Result Read(void* data, size_t size, size_t* num_read);
  // Returns kDone when Read would have a byte.
  Result Peek();
  // Writes up to `size` bytes, which must be at least one. If the result is not kDone, the next call must pass the same
  // bytes, but maybe at another address.
  Result Write(const void* data, size_t size, size_t* num_written);

  // Tells the peer that no more is sent, if the handshake is over and the socket can take that now.
  void SendEnd();

  // The socket is about to be closed: every call from here on ends with kEnded.
  void Detach() { socket_ = -1; }

  // True when the client has shown a certificate, after the handshake, which has checked it.
  bool has_client_certificate() const;

  // Returns why the last call ended with kEnded, for the log.
  const std::string& reason() const { return reason_; }

 private:
  struct Socket;  // OpenSSL's way to the socket
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  Result ResultOf(int returned);
  void SetReason(const char* reason);

  int socket_;
  bool is_open_ = false;  // the handshake is over, and no error came since
  std::unique_ptr<ssl_st, Free> ssl_;
  std::string reason_;
};

}  // namespace maxsim::http
