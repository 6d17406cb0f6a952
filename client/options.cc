#include "client/options.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "maxsim_version.h"

namespace maxsim::client {
namespace {

constexpr int kMaxChannels = 256;
constexpr absl::Duration kFirstReconnect = absl::Milliseconds(200);
constexpr absl::Duration kSlowestReconnect = absl::Seconds(5);

absl::StatusOr<std::string> ReadPem(const std::string& path, const std::string& option) {
  if (path.empty()) return std::string();
  std::error_code ignored;
  // Opening a named pipe that has no writer would wait for ever.
  const std::filesystem::file_type type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::socket) {
    return InvalidField(option, absl::StrCat("'", path, "' is a pipe or a socket, not a file"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[4096];
  // If the path is a folder, its stream buffer throws an exception. read() catches it, and then good() is false.
  while (file.good()) {
    file.read(block, sizeof(block));
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (file.bad() || !file.eof()) {
    const std::string reason = errno == 0 ? "" : absl::StrCat(": ", std::generic_category().message(errno));
    return FieldError(absl::StatusCode::kNotFound, kReasonInvalidField, option,
                      absl::StrCat("cannot read '", path, "'", reason));
  }
  // With an empty text, gRPC would use the system's certificates.
  if (text.empty()) return InvalidField(option, absl::StrCat("'", path, "' is empty"));
  return text;
}

// Checks a header value. gRPC would refuse a wrong one at every call with a message that names neither the header nor
// the cause.
absl::Status CheckHeaderValue(const char* option, const std::string& value) {
  for (const char c : value) {
    if (c < 0x21 || c > 0x7e) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " holds a space, a control character or a byte beyond ASCII"));
    }
  }
  return absl::OkStatus();
}

// Checks that gRPC accepts the key for metadata that is text, as the server's configuration does.
absl::Status CheckClientKey(const std::string& key) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  if (key.empty() || key.find_first_not_of(kLetters) != std::string::npos || absl::StartsWith(key, "grpc-") ||
      absl::EndsWith(key, "-bin")) {
    return absl::InvalidArgumentError(
        absl::StrCat("client_key is \"", key,
                     "\"; must be a metadata key: a-z, 0-9, - _ . without -bin at the end or grpc- at the beginning"));
  }
  return absl::OkStatus();
}

int Milliseconds(absl::Duration duration) {
  const int64_t limit = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(absl::ToInt64Milliseconds(duration), limit));
}

}  // namespace

absl::Status ValidateClientOptions(const ClientOptions& options) {
  if (options.target.empty()) return absl::InvalidArgumentError("target is empty; must be host:port");
  if (options.load_balancing != "round_robin" && options.load_balancing != "pick_first") {
    return absl::InvalidArgumentError(
        absl::StrCat("load_balancing is \"", options.load_balancing, "\"; must be \"round_robin\" or \"pick_first\""));
  }
  if (options.timeout <= absl::ZeroDuration() || options.admin_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("timeout is ", absl::FormatDuration(options.timeout),
                                                   " and admin_timeout ", absl::FormatDuration(options.admin_timeout),
                                                   "; both must be more than 0"));
  }
  if (options.max_message_bytes < 1 || options.max_message_bytes > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("max_message_bytes is ", options.max_message_bytes,
                                                   "; must be between 1 and ", std::numeric_limits<int>::max()));
  }
  if (options.num_channels < 1 || options.num_channels > kMaxChannels) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_channels is ", options.num_channels, "; must be between 1 and ", kMaxChannels));
  }
  if (options.keepalive_time < absl::ZeroDuration() || options.keepalive_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("keepalive_time must be 0 or more, and keepalive_timeout more than 0");
  }
  if (absl::Status valid = CheckHeaderValue("bearer_token", options.bearer_token); !valid.ok()) return valid;
  if (absl::Status valid = CheckHeaderValue("client_id", options.client_id); !valid.ok()) return valid;
  if (absl::Status valid = CheckClientKey(options.client_key); !valid.ok()) return valid;
  return ValidateRetryOptions(options.retry);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const TlsOptions& options) {
  if (!options.enabled) return grpc::InsecureChannelCredentials();
  if (options.cert_file.empty() != options.key_file.empty()) {
    return absl::InvalidArgumentError("tls.cert_file and tls.key_file must be given together");
  }
  grpc::SslCredentialsOptions ssl;
  for (const auto& [path, option, target] : {std::tuple{&options.ca_file, "tls.ca_file", &ssl.pem_root_certs},
                                             std::tuple{&options.cert_file, "tls.cert_file", &ssl.pem_cert_chain},
                                             std::tuple{&options.key_file, "tls.key_file", &ssl.pem_private_key}}) {
    absl::StatusOr<std::string> pem = ReadPem(*path, option);
    if (!pem.ok()) return pem.status();
    *target = *std::move(pem);
  }
  return grpc::SslCredentials(ssl);
}

grpc::ChannelArguments MakeChannelArguments(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetUserAgentPrefix(absl::StrCat("maxsim-client/", kVersion));
  arguments.SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Each channel begins at a random address. If the name's DNS records have a service config, gRPC uses that instead.
  arguments.SetLoadBalancingPolicyName(options.load_balancing);
  // Without its own pool every channel of one target would share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // With gRPC's default of 1 s, every retry within that second would fail without trying to connect.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(kFirstReconnect));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(kSlowestReconnect));
  if (options.keepalive_time > absl::ZeroDuration()) {
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
    // In a call that only reads, the client sends no data. Without this option, gRPC would stop pinging after two
    // pings.
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  if (options.tls.enabled && !options.tls.server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls.server_name);
  }
  return arguments;
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(const ClientOptions& options) {
  absl::Status valid = ValidateClientOptions(options);
  if (!valid.ok()) return valid;
  const absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = MakeCredentials(options.tls);
  if (!credentials.ok()) return credentials.status();
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  channels.reserve(static_cast<size_t>(options.num_channels));
  for (int i = 0; i < options.num_channels; ++i) {
    channels.push_back(grpc::CreateCustomChannel(options.target, *credentials, MakeChannelArguments(options)));
  }
  return channels;
}

}  // namespace maxsim::client
