// The certificates of both ports. They can be replaced while the ports serve.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/tls/tls_context.h"

namespace maxsim {

// The contents of the files of tls.* as of the last successful read. Immutable.
struct TlsIdentity {
  TlsPem pem;
  TlsContext context;  // made from `pem`
};

// The class is thread-safe.
class TlsCertificates {
 public:
  // Reads nothing yet.
  explicit TlsCertificates(TlsFiles files);
  TlsCertificates(const TlsCertificates&) = delete;
  TlsCertificates& operator=(const TlsCertificates&) = delete;

  // Returns false if the ports are plain text. Load then does nothing.
  bool enabled() const { return !files_.cert_file.empty(); }

  // Returns whether clients are asked for a certificate.
  bool asks_clients() const { return !files_.client_ca_file.empty(); }

  // Reads and checks the files. Returns true if they have changed: new connections then use the new certificates, and
  // open connections keep the old ones. After an error nothing changes. Errors are NOT_FOUND or PERMISSION_DENIED if a
  // file cannot be read, INVALID_ARGUMENT if it holds no PEM of the right kind or the key does not belong to the
  // certificate. They name the configuration key and the path.
  absl::StatusOr<bool> Load();

  // Returns the certificates and key that the last successful Load read, or null if none has succeeded. Returns the
  // same object until a Load finds changed files.
  std::shared_ptr<const TlsIdentity> Current() const;

 private:
  absl::StatusOr<TlsPem> Read() const;

  const TlsFiles files_;
  mutable Mutex mutex_;
  std::shared_ptr<const TlsIdentity> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim
