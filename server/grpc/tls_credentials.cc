#include "server/grpc/tls_credentials.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "grpc/grpc.h"

namespace maxsim {
namespace {

// Uses gRPC's C interface, which can replace certificates, and keeps the old ones if the new ones are invalid. The C++
// interface can replace them only with an experimental class, which polls the files, and drops the old certificates
// before it has checked the new ones.
class ReloadableCredentials final : public grpc::ServerCredentials {
 public:
  ReloadableCredentials(grpc_ssl_client_certificate_request_type request,
                        grpc_ssl_server_certificate_config_callback fetch, void* user_data)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(request, fetch, user_data))) {}
  ~ReloadableCredentials() override { grpc_server_credentials_release(credentials_); }

  // The services check tokens themselves, so nothing may call this function.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override { std::abort(); }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsCredentials::Make() {
  const auto request = certificates_.asks_clients() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
  return std::make_shared<ReloadableCredentials>(request, &TlsCredentials::Fetch, this);
}

grpc_ssl_certificate_config_reload_status TlsCredentials::Fetch(void* self,
                                                                grpc_ssl_server_certificate_config** config) {
  auto& credentials = *static_cast<TlsCredentials*>(self);
  MutexLock lock(&credentials.mutex_);
  std::shared_ptr<const TlsIdentity> current = credentials.certificates_.Current();
  if (current == credentials.fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const TlsPem& pem = current->pem;
  const grpc_ssl_pem_key_cert_pair pair = {pem.private_key.c_str(), pem.cert_chain.c_str()};
  // gRPC 1.51 requires certificates of authorities even if clients need not show certificates, although its
  // documentation does not say so. It does not use them then. So pass any certificate that can be parsed.
  const std::string& authorities = pem.client_ca.empty() ? pem.cert_chain : pem.client_ca;
  // gRPC copies its arguments.
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  credentials.fetched_ = std::move(current);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace maxsim
