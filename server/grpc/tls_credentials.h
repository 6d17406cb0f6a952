// Credentials of the gRPC port. Their certificates can be replaced any time.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "grpc/grpc_security.h"
#include "grpcpp/security/server_credentials.h"
#include "server/tls/tls_certificates.h"

namespace maxsim {

// Gives one gRPC server the current certificates. Thread-safe.
class TlsCredentials {
 public:
  // `certificates` must outlive the object.
  explicit TlsCredentials(const TlsCertificates* certificates) : certificates_(*certificates) {}
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;

  // Returns credentials for one listening port of one server. This object must outlive that server. The certificates
  // must have been loaded. If tls.client_ca is set, clients must show a certificate.
  std::shared_ptr<grpc::ServerCredentials> Make();

 private:
  // gRPC calls this before every handshake; `self` is a TlsCredentials.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config);

  const TlsCertificates& certificates_;
  Mutex mutex_;
  std::shared_ptr<const TlsIdentity> fetched_ ABSL_GUARDED_BY(mutex_);  // the identity that gRPC uses now
};

}  // namespace maxsim
