// Makes OpenSSL's server context from the files of tls.*, and checks them.
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

// Returns the context for a port that speaks HTTP/1.1: TLS 1.2 or 1.3, ciphers with forward secrecy and authenticated
// encryption, no renegotiation, no compression. Sessions are not resumed, so that each new connection is checked
// against the current certificates. With `client_ca`, clients are asked for a certificate: a wrong one ends the
// handshake, but a client need not have one. Returns INVALID_ARGUMENT, with the configuration key and the path from
// `files`, if a text of `pem` holds no PEM of the right kind or the key does not belong to the certificate.
absl::StatusOr<TlsContext> MakeTlsContext(const TlsPem& pem, const TlsFiles& files);

}  // namespace maxsim
