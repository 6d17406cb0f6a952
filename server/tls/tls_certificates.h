// Has the certificates of the ports, which may be replaced while these serve.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/tls/tls_context.h"

namespace maxsim {

// What the files of tls.* held when they were last read and right. It does not change.
struct TlsIdentity {
  TlsPem pem;
  TlsContext context;  // of pem
};

// The class is thread-safe.
class TlsCertificates {
 public:
  // Reads nothing yet.
  explicit TlsCertificates(TlsFiles files);
  TlsCertificates(const TlsCertificates&) = delete;
  TlsCertificates& operator=(const TlsCertificates&) = delete;

  // False where the ports are plain text: Load then does nothing.
  bool enabled() const { return !files_.cert_file.empty(); }

  // True where clients are asked for a certificate.
  bool asks_clients() const { return !files_.client_ca_file.empty(); }

  // Reads and checks the files; true when they differ from what was there. From then on new connections get them, and
  // open ones keep what they began with. On an error everything stays as it was: NOT_FOUND or PERMISSION_DENIED for a
  // file that cannot be read, INVALID_ARGUMENT for one that holds no PEM of its kind, or a key that is not the
  // certificate's; each names the configuration's key and the path.
  absl::StatusOr<bool> Load();

  // Returns what the last successful Load read, or null when there was none. Two calls between which nothing was
  // replaced return one object.
  std::shared_ptr<const TlsIdentity> Current() const;

 private:
  absl::StatusOr<TlsPem> Read() const;

  const TlsFiles files_;
  mutable Mutex mutex_;
  std::shared_ptr<const TlsIdentity> current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim
