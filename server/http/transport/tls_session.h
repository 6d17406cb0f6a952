// The server's side of TLS over a non-blocking socket. Nothing here waits: the caller decides where to wait, and for
// how long. Internal to server/http.
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
    kEnded,       // the peer has ended its side, or the connection can no longer be used
  };

  // Throws std::bad_alloc. The caller owns the socket, and must keep it open until Detach.
  TlsSession(const TlsContext& context, int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Runs one step of the handshake. A step may include a signature, which takes a millisecond or more. All other
  // members are fast.
  Result Handshake();

  // Reads up to `size` bytes, and at least one if the result is kDone.
  Result Read(void* data, size_t size, size_t* num_read);
  // Returns kDone if Read would return a byte.
  Result Peek();
  // Writes up to `size` bytes; `size` must not be 0. If the result is not kDone, the next call must pass the same
  // bytes, which may have moved to another address.
  Result Write(const void* data, size_t size, size_t* num_written);

  // Tells the peer that no more data follows, if the handshake is over and the socket can take the message now.
  void SendEnd();

  // Must be called before the socket is closed. Every later call returns kEnded.
  void Detach() { socket_ = -1; }

  // Returns true if the client has shown a valid certificate. Call it after the handshake.
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
