#include "server/encoder/http_peer.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/token_file.h"

namespace maxsim::encoder {
namespace {

namespace ssl = boost::asio::ssl;

absl::Status CheckReadable(std::string_view key, const std::string& path) {
  if (const std::string_view kind = OtherKind(path); !kind.empty()) {
    return Invalid(key, ": cannot read ", path, ": it is ", kind, ", not a file");
  }
  errno = 0;
  if (std::ifstream(path)) return absl::OkStatus();
  const std::string message = Cat(key, ": cannot read ", path, ": ", std::strerror(errno));
  return errno == EACCES ? absl::PermissionDeniedError(message) : absl::NotFoundError(message);
}

absl::Status Say(std::string_view key, const std::string& path, const boost::system::error_code& error) {
  if (!error) return absl::OkStatus();
  return Invalid(key, ": ", path, ": ", error.message());
}

absl::Status SetUpTls(const HttpEncoderOptions& options, ssl::context& context) {
  boost::system::error_code error;
  context.set_verify_mode(ssl::verify_peer);
  if (options.tls_ca_file.empty()) {
    context.set_default_verify_paths(error);
    if (error) return absl::InternalError(Cat("the system's certificate authorities: ", error.message()));
  } else {
    if (absl::Status status = CheckReadable("encoder.tls_ca_file", options.tls_ca_file); !status.ok()) return status;
    context.load_verify_file(options.tls_ca_file, error);
    if (error) return Say("encoder.tls_ca_file", options.tls_ca_file, error);
  }
  if (options.tls_cert_file.empty()) return absl::OkStatus();
  for (const auto& [key, path] : {std::pair("encoder.tls_cert_file", &options.tls_cert_file),
                                  std::pair("encoder.tls_key_file", &options.tls_key_file)}) {
    if (absl::Status status = CheckReadable(key, *path); !status.ok()) return status;
  }
  // Without a callback OpenSSL would ask for a pass phrase on the terminal.
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context.use_certificate_chain_file(options.tls_cert_file, error);
  if (error) return Say("encoder.tls_cert_file", options.tls_cert_file, error);
  context.use_private_key_file(options.tls_key_file, ssl::context::pem, error);
  return Say("encoder.tls_key_file", options.tls_key_file, error);
}

}  // namespace

absl::StatusOr<HttpPeer> MakePeer(const HttpEncoderOptions& options) {
  HttpPeer peer;
  absl::StatusOr<EncoderUrl> url = ParseEncoderUrl(options.url);
  if (!url.ok()) return Prefix("encoder.url: ", url.status());
  peer.url = *std::move(url);
  if (!options.token_file.empty()) {
    // Use the first token. A file may hold several, since servers can accept more than one.
    absl::StatusOr<std::vector<std::string>> tokens = ReadTokenFile("encoder.token_file", options.token_file);
    if (!tokens.ok()) return tokens.status();
    peer.token = std::move(tokens->front());
  }
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return absl::InvalidArgumentError("encoder.tls_cert_file and encoder.tls_key_file must be given together");
  }
  if (!peer.url.is_tls) {
    if (options.tls_ca_file.empty() && options.tls_cert_file.empty() && options.tls_server_name.empty()) return peer;
    return absl::InvalidArgumentError(
        "encoder.tls_ca_file, encoder.tls_cert_file and encoder.tls_server_name need an encoder.url of https://");
  }
  peer.server_name = options.tls_server_name.empty() ? peer.url.host : options.tls_server_name;
  peer.tls = std::make_unique<ssl::context>(ssl::context::tls_client);
  if (SSL_CTX_set_min_proto_version(peer.tls->native_handle(), TLS1_2_VERSION) != 1) {
    return absl::InternalError("OpenSSL knows no TLS 1.2");
  }
  if (absl::Status status = SetUpTls(options, *peer.tls); !status.ok()) return status;
  return peer;
}

}  // namespace maxsim::encoder
