#include "server/grpc/tls_certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "grpc/grpc.h"

namespace maxsim {
namespace {

// gRPC's C++ interface can replace certificates only by an experimental class, which polls the files and gives the old
// ones up before it knows that the new ones are good. Its C interface has had this since long, and keeps the old ones.
class ReloadableCredentials final : public grpc::ServerCredentials {
 public:
  ReloadableCredentials(grpc_ssl_client_certificate_request_type request,
                        grpc_ssl_server_certificate_config_callback fetch, void* user_data)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(request, fetch, user_data))) {}
  ~ReloadableCredentials() override { grpc_server_credentials_release(credentials_); }

  // To call this is a programmer's error, since the services check tokens themselves.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override { std::abort(); }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<SSL_CTX, Free>;

Bio Open(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

// No pass phrase, as gRPC reads both; without one OpenSSL would ask on the terminal.
char* NoPassPhrase() {
  static char empty[] = "";
  return empty;
}

// The first one in the text, which of a chain is the server's own; null when there is none.
Certificate ReadCertificate(const std::string& pem) {
  Certificate certificate(PEM_read_bio_X509_AUX(Open(pem).get(), nullptr, nullptr, NoPassPhrase()));
  ERR_clear_error();
  return certificate;
}

PrivateKey ReadPrivateKey(const std::string& pem) {
  PrivateKey key(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, nullptr, NoPassPhrase()));
  ERR_clear_error();
  return key;
}

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

TlsCertificates::TlsCertificates(const config::Config& config)
    : cert_file_(config.tls.cert_file), key_file_(config.tls.key_file), client_ca_file_(config.tls.client_ca_file) {}

absl::StatusOr<TlsCertificates::Pem> TlsCertificates::Read() const {
  Pem pem;
  auto cert_chain = ReadFile("tls.cert_file", cert_file_);
  if (!cert_chain.ok()) return cert_chain.status();
  auto private_key = ReadFile("tls.key_file", key_file_);
  if (!private_key.ok()) return private_key.status();
  pem.cert_chain = *std::move(cert_chain);
  pem.private_key = *std::move(private_key);

  const Certificate certificate = ReadCertificate(pem.cert_chain);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("tls.cert_file: ", cert_file_, " holds no certificate in PEM"));
  }
  const PrivateKey key = ReadPrivateKey(pem.private_key);
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.key_file: ", key_file_, " holds no private key in PEM that needs no pass phrase"));
  }
  // What gRPC will do with them: it would say less, and not before the next connection.
  const Context context(SSL_CTX_new(TLS_server_method()));
  const bool takes_certificate = context != nullptr && SSL_CTX_use_certificate(context.get(), certificate.get()) == 1;
  const bool takes_key = takes_certificate && SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
                         SSL_CTX_check_private_key(context.get()) == 1;
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  if (!takes_certificate) {
    return absl::InvalidArgumentError(absl::StrCat("tls.cert_file: OpenSSL does not take the certificate in ",
                                                   cert_file_, ": ", reason == nullptr ? "no reason given" : reason));
  }
  if (!takes_key) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.key_file: ", key_file_, " is not the key of the certificate in tls.cert_file, ", cert_file_));
  }
  if (client_ca_file_.empty()) return pem;

  auto client_ca = ReadFile("tls.client_ca_file", client_ca_file_);
  if (!client_ca.ok()) return client_ca.status();
  pem.client_ca = *std::move(client_ca);
  if (ReadCertificate(pem.client_ca) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.client_ca_file: ", client_ca_file_, " holds no certificate in PEM"));
  }
  return pem;
}

absl::StatusOr<bool> TlsCertificates::Load() {
  if (!enabled()) return false;
  auto pem = Read();
  if (!pem.ok()) return pem.status();
  MutexLock lock(&mutex_);
  if (pem_ == *pem) return false;
  pem_ = *std::move(pem);
  fetched_ = false;
  return true;
}

std::shared_ptr<grpc::ServerCredentials> TlsCertificates::Credentials() {
  const auto request = client_ca_file_.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  return std::make_shared<ReloadableCredentials>(request, &TlsCertificates::Fetch, this);
}

grpc_ssl_certificate_config_reload_status TlsCertificates::Fetch(void* self,
                                                                 grpc_ssl_server_certificate_config** config) {
  auto& certificates = *static_cast<TlsCertificates*>(self);
  MutexLock lock(&certificates.mutex_);
  if (std::exchange(certificates.fetched_, true)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair = {certificates.pem_.private_key.c_str(), certificates.pem_.cert_chain.c_str()};
  // gRPC (1.51) wants authorities here, whatever its documentation says, and looks at them only where certificates are
  // asked of clients; where they are not, it gets a certificate that parses.
  const std::string& authorities =
      certificates.pem_.client_ca.empty() ? certificates.pem_.cert_chain : certificates.pem_.client_ca;
  // gRPC copies what it is given.
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace maxsim
