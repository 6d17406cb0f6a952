#include <sys/un.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "server/config/collections.h"
#include "server/config/config.h"
#include "server/config/nats_keys.h"
#include "server/config/values.h"

namespace maxsim::config {
namespace {

// Returns an error if `small` exceeds `large`.
absl::Status Ordered(const char* small_name, int64_t small_value, const char* large_name, int64_t large_value) {
  if (small_value <= large_value) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(small_name, " is ", small_value, ", more than ", large_name, ", which is ", large_value));
}

absl::Status ValidateTls(const Config& config) {
  const auto& tls = config.tls;
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError("tls.cert_file and tls.key_file must be given together");
  }
  if (!tls.client_ca_file.empty() && tls.cert_file.empty()) {
    return absl::InvalidArgumentError("tls.client_ca_file needs tls.cert_file and tls.key_file");
  }
  if (tls.cert_file.empty() && HttpTlsOf(config) != HttpTls::kOff) {
    return absl::InvalidArgumentError("http.tls needs tls.cert_file and tls.key_file, unless it is auto or off");
  }
  return absl::OkStatus();
}

absl::Status ValidateEncoder(const Config& config) {
  const encoder::HttpEncoderOptions& http = config.encoder.http;
  if (http.url.empty()) return absl::OkStatus();
  if (http.tls_cert_file.empty() != http.tls_key_file.empty()) {
    return absl::InvalidArgumentError("encoder.tls_cert_file and encoder.tls_key_file must be given together");
  }
  const bool has_tls = !http.tls_ca_file.empty() || !http.tls_cert_file.empty() || !http.tls_server_name.empty();
  if (has_tls && !absl::StartsWith(http.url, "https://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoder.tls_ca_file, encoder.tls_cert_file and encoder.tls_server_name need an encoder.url of "
                     "https://, but it is ",
                     http.url));
  }
  if (http.dialect == encoder::Dialect::kMaxsim &&
      (!http.identity.query_prefix.empty() || !http.identity.document_prefix.empty())) {
    return absl::InvalidArgumentError(
        "encoder.query_prefix and encoder.document_prefix need an encoder.dialect other than maxsim, whose encoder "
        "adds "
        "its own");
  }
  for (const auto& [key, name] : {std::pair("encoder.query_prompt_name", &http.query_prompt_name),
                                  std::pair("encoder.document_prompt_name", &http.document_prompt_name)}) {
    if (name->empty() || http.dialect == encoder::Dialect::kTei) continue;
    return absl::InvalidArgumentError(absl::StrCat(key, ": \"", *name,
                                                   "\" is only sent in encoder.dialect tei, but it is ",
                                                   std::string(encoder::Name(http.dialect))));
  }
  if (http.timeout == absl::ZeroDuration())
    return absl::InvalidArgumentError("encoder.timeout: \"0\" must be more than 0");
  if (http.identity.dim != 0 && http.identity.dim < kMinDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoder.dim: \"", http.identity.dim, "\" is neither 0 nor ", kMinDim, " to ", kMaxDim));
  }
  return absl::OkStatus();
}

absl::Status ValidateCreation(const Config& config) {
  if (!config.live.create_from_cluster) {
    if (config.cluster.peers.empty() && config.cluster.backups.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(config.cluster.peers.empty() ? "cluster.backups" : "cluster.peers",
                                                   " is set, which needs live.create_from_cluster true"));
  }
  if (config.live.log != live::LogKind::kNats) {
    return absl::InvalidArgumentError("live.create_from_cluster is true, which needs live.log nats");
  }
  // Without restore_created, a restarted server would not load the collections that were created before. It would then
  // create them again, empty, next to the old files.
  if (!config.live.restore_created) {
    return absl::InvalidArgumentError("live.create_from_cluster is true, which needs live.restore_created true");
  }
  if (!config.allowed_roots.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "live.create_from_cluster is true, but store.allowed_roots names no folder for the collections");
}

absl::Status ValidateLive(const live::LiveOptions& live) {
  for (const absl::Status& status :
       {Ordered("live.segment_bytes", live.segment_bytes, "live.max_segment_bytes", live.max_segment_bytes),
        // With a larger value, segments would be full before a compaction begins.
        live.compact
            ? Ordered("live.compact_at_bytes", live.compact_at_bytes, "live.max_segment_bytes", live.max_segment_bytes)
            : absl::OkStatus()}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// The longest path that fits into a socket address, without the terminating zero.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status ValidateSocket(const std::string& path) {
  if (absl::StrContains(path, '%')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "grpc.unix_socket: ", path, " holds a %, which gRPC takes for the beginning of an encoded character"));
  }
  if (path.size() <= kMaxSocketPath) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("grpc.unix_socket: ", path, " has ", path.size(), " bytes, more than the limit ", kMaxSocketPath));
}

// Returns whether a server with this host listens on all addresses of the machine.
bool IsAnyAddress(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// Refuses two addresses that cannot both be bound. Port 0 never conflicts.
absl::Status ValidateAddresses(const Config& config) {
  const absl::StatusOr<Address> grpc = ParseAddress(config.grpc.address);
  const absl::StatusOr<Address> http = ParseAddress(config.http.address);
  if (!grpc.ok() || !http.ok() || grpc->port != http->port || grpc->port == 0) return absl::OkStatus();
  if (grpc->host != http->host && !IsAnyAddress(grpc->host) && !IsAnyAddress(http->host)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("http.address is ", config.http.address, " and grpc.address is ",
                                                 config.grpc.address, "; they must have different ports"));
}

bool IsLoopback(const std::string& text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  return address.ok() &&
         (address->host == "localhost" || address->host == "::1" || absl::StartsWith(address->host, "127."));
}

// Returns an error if a router lists its own address as a server of a group. Finds neither host names that need a name
// server nor entries of cluster.groups_file. For these, the router notices its own answer (check_info.h).
absl::Status ValidateNotItself(const Config& config) {
  const absl::StatusOr<Address> own = ParseAddress(config.grpc.address);
  if (!own.ok() || own->port == 0) return absl::OkStatus();
  const auto number_of = [](const std::string& host) { return host == "localhost" ? std::string("127.0.0.1") : host; };
  for (const cluster::GroupOptions& group : config.cluster.groups) {
    for (const std::string& target : group.targets) {
      const absl::StatusOr<Address> address = ParseAddress(target);
      if (!address.ok() || address->port != own->port) continue;
      const std::string host = number_of(address->host);
      const bool is_same =
          host == number_of(own->host) || (IsAnyAddress(own->host) && (host == "127.0.0.1" || host == "::1"));
      if (!is_same) continue;
      return absl::InvalidArgumentError(absl::StrCat("cluster.groups: target ", target, " of group ", group.name,
                                                     " is this router itself (grpc.address is ", config.grpc.address,
                                                     ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateCluster(const Config& config) {
  const cluster::ClusterOptions& cluster = config.cluster;
  if (!cluster.groups.empty() && !cluster.groups_file.empty()) {
    return absl::InvalidArgumentError("cluster.groups and cluster.groups_file are both set; set only one of them");
  }
  if (cluster::IsRouter(cluster) && !config.collections.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("collections: ", config.collections.front().name,
                     " is configured, but a router (cluster.groups) has no collections of its own"));
  }
  if (absl::Status status = ValidateNotItself(config); !status.ok()) return status;
  if (cluster.poll_interval < absl::Milliseconds(10)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.poll_interval: ", absl::FormatDuration(cluster.poll_interval), " is less than the limit 10ms"));
  }
  if (cluster.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("cluster.timeout: is 0, but calls of clients without a deadline need one");
  }
  const bool has_files = !cluster.tls.ca_file.empty() || !cluster.tls.cert_file.empty() ||
                         !cluster.tls.key_file.empty() || !cluster.tls.server_name.empty();
  if (has_files && !cluster.tls.enabled) {
    return absl::InvalidArgumentError("cluster.tls is false, but one of its files or its name is set");
  }
  return absl::OkStatus();
}

}  // namespace

HttpTls HttpTlsOf(const Config& config) {
  if (config.http.tls != HttpTls::kAuto) return config.http.tls;
  return config.tls.cert_file.empty() ? HttpTls::kOff : HttpTls::kApi;
}

uint64_t HttpBodyMemoryOf(const Config& config) {
  constexpr uint64_t kLargestBodies = 16;
  if (config.http.max_body_memory != 0) return config.http.max_body_memory;
  return kLargestBodies * config.http.max_body_bytes;
}

std::vector<std::string> Warnings(const Config& config) {
  std::vector<std::string> warnings;
  if (config.admin.enabled && config.auth.tokens_file.empty() && config.auth.write_tokens_file.empty() &&
      config.auth.admin_tokens_file.empty() && config.tls.client_ca_file.empty() && !IsLoopback(config.grpc.address)) {
    warnings.push_back(absl::StrCat("whoever reaches grpc.address ", config.grpc.address, " may ",
                                    config.allowed_roots.empty() ? "reload" : "load, reload",
                                    " and unload collections: set auth.tokens_file, auth.admin_tokens_file or "
                                    "tls.client_ca_file, or admin.enabled to false"));
  }
  if (!config.tls.client_ca_file.empty() && !config.http.address.empty() && HttpTlsOf(config) == HttpTls::kOff) {
    warnings.push_back(
        absl::StrCat("tls.client_ca_file guards grpc.address only: http.tls is off, so that http.address ",
                     config.http.address, " is plain text and asks for no certificate"));
  }
  if (!config.tls.client_ca_file.empty() && !config.grpc.unix_socket.empty()) {
    warnings.push_back(absl::StrCat("tls.client_ca_file does not guard the Unix socket: grpc.unix_socket ",
                                    config.grpc.unix_socket, " asks for no certificate of whoever may open it"));
  }
  return warnings;
}

absl::Status Validate(const Config& config) {
  const service::RequestLimits& limits = config.limits;
  const ExecutorOptions& executor = config.engine.executor;
  for (const absl::Status& status :
       {Ordered("limits.default_top_k", limits.default_top_k, "limits.max_top_k", limits.max_top_k),
        Ordered("limits.max_query_tokens", limits.max_query_tokens, "engine.max_query_tokens",
                executor.max_query_tokens),
        Ordered("limits.max_candidates_per_query", limits.max_candidates_per_query, "engine.max_candidates",
                executor.max_candidates),
        Ordered("limits.max_inline_documents", limits.max_inline_documents, "engine.max_staged_documents",
                executor.max_staged_documents),
        Ordered("http.max_body_bytes", config.http.max_body_bytes, "http.max_body_memory", HttpBodyMemoryOf(config)),
        config.grpc.max_memory_bytes == 0 ? absl::OkStatus()
                                          : Ordered("limits.max_request_bytes", limits.max_request_bytes,
                                                    "grpc.max_memory", config.grpc.max_memory_bytes),
        config.grpc.max_unread_answer_bytes == 0
            ? absl::OkStatus()
            : Ordered("limits.max_answer_bytes", limits.max_answer_bytes, "grpc.max_unread_answer_bytes",
                      config.grpc.max_unread_answer_bytes),
        ValidateLive(config.live), ValidateCreation(config), ValidateCluster(config), ValidateNats(config),
        ValidateTls(config), ValidateEncoder(config), ValidateSocket(config.grpc.unix_socket),
        ValidateAddresses(config)}) {
    if (!status.ok()) return status;
  }
  std::set<std::string> names;
  for (const CollectionConfig& collection : config.collections) {
    if (absl::Status status = ValidateCollection(collection); !status.ok()) return status;
    if (collection.residency == store::Residency::kGpu && config.backend.kind == BackendKind::kCpu) {
      return absl::InvalidArgumentError(
          absl::StrCat("collection ", collection.name, ": residency is gpu, but backend.kind is cpu"));
    }
    if (!names.insert(collection.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("collections: name ", collection.name, " appears twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace maxsim::config
