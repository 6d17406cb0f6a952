#include "server/tls/tls_certificates.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace maxsim {
namespace {

absl::StatusOr<std::string> ReadFile(const char* key, const std::string& path) {
  if (const std::string_view kind = OtherKind(path); !kind.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": cannot read ", path, ": it is ", std::string(kind), ", not a file"));
  }
  errno = 0;
  std::ifstream file(path);
  std::ostringstream content;
  if (file) content << file.rdbuf();
  if (!file || content.str().empty()) {
    const std::string message =
        absl::StrCat(key, ": cannot read ", path, ": ", errno == 0 ? "the file is empty" : std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(message) : absl::NotFoundError(message);
  }
  return content.str();
}

}  // namespace

TlsCertificates::TlsCertificates(TlsFiles files) : files_(std::move(files)) {}

absl::StatusOr<TlsPem> TlsCertificates::Read() const {
  auto cert_chain = ReadFile("tls.cert_file", files_.cert_file);
  if (!cert_chain.ok()) return cert_chain.status();
  auto private_key = ReadFile("tls.key_file", files_.key_file);
  if (!private_key.ok()) return private_key.status();
  TlsPem pem{.cert_chain = *std::move(cert_chain), .private_key = *std::move(private_key), .client_ca = {}};
  if (!asks_clients()) return pem;
  auto client_ca = ReadFile("tls.client_ca_file", files_.client_ca_file);
  if (!client_ca.ok()) return client_ca.status();
  pem.client_ca = *std::move(client_ca);
  return pem;
}

absl::StatusOr<bool> TlsCertificates::Load() {
  if (!enabled()) return false;
  auto pem = Read();
  if (!pem.ok()) return pem.status();
  auto context = MakeTlsContext(*pem, files_);
  if (!context.ok()) return context.status();
  auto identity = std::make_shared<const TlsIdentity>(TlsIdentity{*std::move(pem), *std::move(context)});
  MutexLock lock(&mutex_);
  if (current_ != nullptr && current_->pem == identity->pem) return false;
  current_ = std::move(identity);
  return true;
}

std::shared_ptr<const TlsIdentity> TlsCertificates::Current() const {
  MutexLock lock(&mutex_);
  return current_;
}

}  // namespace maxsim
