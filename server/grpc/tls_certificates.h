// The certificates of the gRPC port, which may be replaced while it serves.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "grpc/grpc_security.h"
#include "grpcpp/security/server_credentials.h"
#include "server/config/config.h"

namespace maxsim {

// The files of tls.*, as they were when they were last read and right. Thread-safe.
class TlsCertificates {
 public:
  // Reads nothing yet; takes what it needs of `config`.
  explicit TlsCertificates(const config::Config& config);
  TlsCertificates(const TlsCertificates&) = delete;
  TlsCertificates& operator=(const TlsCertificates&) = delete;

  // False where the port is plain text: Load then does nothing.
  bool enabled() const { return !cert_file_.empty(); }

  // Reads and checks the files; true when they differ from what was there. From then on new connections get them, and
  // open ones keep what they began with. On an error everything stays as it was: NOT_FOUND or PERMISSION_DENIED for a
  // file that cannot be read, INVALID_ARGUMENT for one that holds no PEM of its kind, or a key that is not the
  // certificate's; each names the configuration's key and the path.
  absl::StatusOr<bool> Load();

  // Credentials for one listening port, of one server, that this object must outlive. Load must have succeeded.
  std::shared_ptr<grpc::ServerCredentials> Credentials();

 private:
  struct Pem {
    std::string cert_chain;
    std::string private_key;
    std::string client_ca;  // "": clients need no certificate

    friend bool operator==(const Pem&, const Pem&) = default;
  };

  absl::StatusOr<Pem> Read() const;
  // gRPC asks before every handshake; `self` is a TlsCertificates.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config);

  const std::string cert_file_;
  const std::string key_file_;
  const std::string client_ca_file_;
  Mutex mutex_;
  Pem pem_ ABSL_GUARDED_BY(mutex_);
  bool fetched_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC has what pem_ holds
};

}  // namespace maxsim
