// Makes OpenSSL's context of a server out of the files of tls.*. This is also the check of the files, for both ports.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace maxsim {

struct TlsFiles {
  std::string cert_file;  // "": plain text
  std::string key_file;
  std::string client_ca_file;  // "": clients are asked for no certificate
};

struct TlsPem {
  std::string cert_chain;
  std::string private_key;
  std::string client_ca;  // "": clients are asked for no certificate

  friend bool operator==(const TlsPem&, const TlsPem&) = default;
};

using TlsContext = std::shared_ptr<ssl_ctx_st>;

// Returns the context of a port that speaks HTTP/1.1: TLS 1.2 or 1.3, ciphers with forward secrecy and authenticated
// encryption, no renegotiation, no compression. No session is resumed, so that each connection is checked against the
// certificates of its own time. Where there are authorities, clients are asked for a certificate: a wrong one ends the
// handshake, and none is no error. INVALID_ARGUMENT for a text that holds no PEM of its kind, or a key that is not the
// certificate's; it names the configuration's key and the path, by `files`.
absl::StatusOr<TlsContext> MakeTlsContext(const TlsPem& pem, const TlsFiles& files);

}  // namespace maxsim
