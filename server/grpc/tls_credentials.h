// Has gRPC encrypt a port with certificates that may be replaced.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "grpc/grpc_security.h"
#include "grpcpp/security/server_credentials.h"
#include "server/tls/tls_certificates.h"

namespace maxsim {

// What one server of gRPC knows of the certificates. Thread-safe.
class TlsCredentials {
 public:
  // `certificates` must outlive the object.
  explicit TlsCredentials(const TlsCertificates* certificates) : certificates_(*certificates) {}
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;

  // Returns credentials for one listening port, of one server, that this object must outlive. The certificates must
  // have been loaded. Clients must show one where they are asked for it.
  std::shared_ptr<grpc::ServerCredentials> Make();

 private:
  // gRPC asks before every handshake; `self` is a TlsCredentials.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config);

  const TlsCertificates& certificates_;
  Mutex mutex_;
  std::shared_ptr<const TlsIdentity> fetched_ ABSL_GUARDED_BY(mutex_);  // what gRPC has
};

}  // namespace maxsim
