#include "server/config/keys.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/maxsim.h"
#include "server/config/cluster_keys.h"
#include "server/config/encoder_keys.h"
#include "server/config/key_kinds.h"
#include "server/config/live_keys.h"
#include "server/config/nats_keys.h"
#include "server/config/tracing_keys.h"

namespace maxsim::config {
namespace {

using namespace key_kinds;

void AddNetworkKeys(std::vector<Key>& keys) {
  keys.push_back(AddressKey(
      "grpc.address", +[](Config& c) -> std::string& { return c.grpc.address; }, false,
      "Where gRPC listens; port 0 picks a free one."));
  keys.push_back(Text(
      "grpc.unix_socket", "path", +[](Config& c) -> std::string& { return c.grpc.unix_socket; },
      "Unix socket where gRPC listens as well, in plain text, for clients on this machine; empty: none."));
  keys.push_back(Count(
      "grpc.max_connections", +[](Config& c) -> int& { return c.grpc.max_connections; }, 1, kMi,
      "Open connections; one more takes the place of one that has made no call, or is closed. The process needs a "
      "descriptor for each."));
  keys.push_back(Count(
      "grpc.max_connections_per_peer", +[](Config& c) -> int& { return c.grpc.max_connections_per_peer; }, 0, kMi,
      "Open connections of one IP address, by the same rule; 0 means no limit."));
  keys.push_back(Duration(
      "grpc.first_call_timeout", +[](Config& c) -> absl::Duration& { return c.grpc.first_call_timeout; },
      absl::Hours(1),
      "Until a connection has made a call (with a known token, where there are tokens); then it is closed."));
  keys.push_back(Duration(
      "grpc.max_connection_idle", +[](Config& c) -> absl::Duration& { return c.grpc.max_connection_idle; },
      absl::Hours(24), "Time without a call after which a connection is closed; 0 means no limit."));
  keys.push_back(Bytes(
      "grpc.max_memory", +[](Config& c) -> uint64_t& { return c.grpc.max_memory_bytes; }, 0, kHuge,
      "Memory of messages that have not come whole; beyond it gRPC cancels calls by chance, with RESOURCE_EXHAUSTED or "
      "UNAVAILABLE; 0 is four times limits.max_request_bytes, and 512MiB at least."));
  keys.push_back(Count(
      "grpc.stream_in_flight", +[](Config& c) -> int& { return c.grpc.stream_in_flight; }, 1, 4096,
      "Unanswered requests of one RerankStream; beyond it the stream is not read."));
  keys.push_back(Bytes(
      "grpc.max_unread_answer_bytes", +[](Config& c) -> uint64_t& { return c.grpc.max_unread_answer_bytes; }, 0, kHuge,
      "Answers that clients have not read yet, of all calls; beyond it the address that holds the most loses calls, "
      "with "
      "RESOURCE_EXHAUSTED. A RerankStream that holds a sixteenth is not read; 0 means no limit."));
  keys.push_back(Count(
      "grpc.max_concurrent_streams", +[](Config& c) -> int& { return c.grpc.max_concurrent_streams; }, 1, 1'000'000,
      "Calls of one connection at a time."));
  keys.push_back(Duration(
      "grpc.max_connection_age", +[](Config& c) -> absl::Duration& { return c.grpc.max_connection_age; },
      absl::Hours(24),
      "Age at which a connection takes no new calls, so that its client looks for servers again; 0 is none."));
  keys.push_back(Duration(
      "grpc.max_connection_age_grace", +[](Config& c) -> absl::Duration& { return c.grpc.max_connection_age_grace; },
      absl::Hours(24), "From that age on: time that calls in progress have to finish before they are cut off."));
  keys.push_back(Bool(
      "grpc.reflection", +[](Config& c) -> bool& { return c.grpc.reflection; },
      "Serve reflection, by which tools such as grpcurl learn the services without proto files."));
  keys.push_back(AddressKey(
      "http.address", +[](Config& c) -> std::string& { return c.http.address; }, true,
      "Where HTTP listens (/metrics, /livez, /readyz, /v1/rerank, the console); empty switches it off."));
  keys.push_back(Choice<HttpTls>(
      "http.tls", {"auto", "off", "api", "all"}, {HttpTls::kAuto, HttpTls::kOff, HttpTls::kApi, HttpTls::kAll},
      +[](Config& c) -> HttpTls& { return c.http.tls; },
      "What HTTP serves through TLS only, with the certificates of tls.*: api is all but probes and /metrics, which "
      "are served in plain text too; all leaves nothing in plain text; auto is api with tls.cert_file, and off "
      "without."));
  keys.push_back(Count(
      "http.threads", +[](Config& c) -> int& { return c.http.threads; }, 1, 256,
      "Threads that read and write the JSON of /v1/rerank."));
  keys.push_back(Count(
      "http.max_concurrent_requests", +[](Config& c) -> int& { return c.http.max_concurrent_requests; }, 1, 4096,
      "Calls of /v1/rerank at a time, each with a body of up to http.max_body_bytes; one more gets "
      "RESOURCE_EXHAUSTED."));
  keys.push_back(Bytes(
      "http.max_body_bytes", +[](Config& c) -> uint64_t& { return c.http.max_body_bytes; }, kKi, kGi,
      "Largest body of an HTTP request."));
  keys.push_back(Bytes(
      "http.max_body_memory", +[](Config& c) -> uint64_t& { return c.http.max_body_memory; }, 0, kHuge,
      "Bodies of all HTTP requests that are received or answered, together; a request beyond it gets "
      "RESOURCE_EXHAUSTED; 0 is 16 times http.max_body_bytes. Scoring a body takes up to four times its bytes."));
  keys.push_back(Duration(
      "http.request_timeout", +[](Config& c) -> absl::Duration& { return c.http.request_timeout; }, absl::Hours(1),
      "Deadline of a /v1/rerank call; 0 is none."));
  keys.push_back(Count(
      "http.max_idle_connections", +[](Config& c) -> int& { return c.http.max_idle_connections; }, 1, 1'000'000,
      "Connections without a /v1/rerank call in progress; one more closes the longest idle one of the address that has "
      "most."));
  keys.push_back(Count(
      "http.max_idle_connections_per_peer", +[](Config& c) -> int& { return c.http.max_idle_connections_per_peer; }, 1,
      1'000'000, "Such connections of one address; one more closes its longest idle one."));
  keys.push_back(Duration(
      "http.idle_timeout", +[](Config& c) -> absl::Duration& { return c.http.idle_timeout; }, absl::Hours(1),
      "Time until a connection without a request is closed; 0 is none."));
  keys.push_back(Duration(
      "http.body_timeout", +[](Config& c) -> absl::Duration& { return c.http.body_timeout; }, absl::Hours(1),
      "Time that a body has to come in; 0 is none."));
  keys.push_back(Choice<RootDocuments>(
      "http.root_documents", {"ids", "texts"}, {RootDocuments::kIds, RootDocuments::kTexts},
      +[](Config& c) -> RootDocuments& { return c.http.root_documents; },
      "What a string in documents is under /v1/rerank, /v2/rerank and /rerank: the id of a stored document, or a text, "
      "as "
      "under /text, for clients that drop the path of their base URL."));
  keys.push_back(NameList(
      "http.allowed_hosts", +[](Config& c) -> std::vector<std::string>& { return c.http.allowed_hosts; },
      "Further names by which browsers may call the API without a token, such as search.example.org; * is any name. "
      "IP addresses and private names are always allowed (docs/operate/secure.md)."));
  keys.push_back(Bool(
      "http.console", +[](Config& c) -> bool& { return c.http.console; },
      "Serve the console, a page for people, at /."));
  keys.push_back(Text(
      "http.console_questions", "path", +[](Config& c) -> std::string& { return c.http.console_questions; },
      "Recorded questions that the console offers, JSON Lines (docs/operate/console.md); empty: none."));
}

void AddBackendKeys(std::vector<Key>& keys) {
  keys.push_back(Choice<BackendKind>(
      "backend.kind", {"auto", "cpu", "cuda"}, {BackendKind::kAuto, BackendKind::kCpu, BackendKind::kCuda},
      +[](Config& c) -> BackendKind& { return c.backend.kind; },
      "What scores; auto takes a CUDA device that works, else the CPU."));
  keys.push_back(DevicesKey(
      "backend.devices", +[](Config& c) -> std::vector<int>& { return c.backend.devices; },
      "CUDA devices, as CUDA numbers them, that shards are spread over; all takes what there is."));
  keys.push_back(Count(
      "backend.cpu_threads", +[](Config& c) -> int& { return c.backend.cpu_threads; }, 0, kMaxCpuThreads,
      "Scoring threads of the CPU backend; 0 is one per core."));
  keys.push_back(IsaKey(
      "backend.cpu_isa", +[](Config& c) -> std::string& { return c.backend.cpu_isa; },
      absl::StrCat("Instruction set of the CPU backend, one of ", absl::StrJoin(kIsas, ", "),
                   "; empty takes the best the machine has.")));
  keys.push_back(Bytes(
      "backend.stream_block_bytes", +[](Config& c) -> int64_t& { return c.backend.cuda.stream_block_bytes; }, 0,
      16 * kGi,
      "Documents in host memory or on disk come to a CUDA device in blocks of this size, two a lane; 0 allows none."));
  keys.push_back(Bytes(
      "backend.document_cache_bytes", +[](Config& c) -> int64_t& { return c.backend.cuda.document_cache_bytes; }, 0,
      kHuge, "Device memory in which each lane keeps such documents that candidate lists name again and again."));
  keys.push_back(Count(
      "backend.reader_threads", +[](Config& c) -> int& { return c.backend.cuda.reader_threads; }, 1, 256,
      "Threads per CUDA device that read documents on disk."));
  keys.push_back(Bytes(
      "memory.budget", +[](Config& c) -> size_t& { return c.store.memory_budget_bytes; }, 0, kHuge,
      "Memory of each device (the CPU backend: of the host) that collections may take; 0 is what is free, less the "
      "reserve."));
  keys.push_back(Bytes(
      "memory.reserve", +[](Config& c) -> size_t& { return c.store.memory_reserve_bytes; }, 0, kHuge,
      "Memory of each device left free for workspaces."));
  keys.push_back(Bytes(
      "memory.host_budget", +[](Config& c) -> size_t& { return c.store.host_budget_bytes; }, 0, kHuge,
      "Pinned host memory that collections on GPUs may take; 0 is what is free, less the reserve."));
  keys.push_back(Bytes(
      "memory.host_reserve", +[](Config& c) -> size_t& { return c.store.host_reserve_bytes; }, 0, kHuge,
      "Host memory left free beside pinned collections, for ids, payloads, requests and the page cache."));
  keys.push_back(Bytes(
      "memory.replicate_below", +[](Config& c) -> uint64_t& { return c.store.replicate_below_bytes; }, 0, kHuge,
      "Collections that take less memory than this are copied to every device, unless theirs says replicate: false."));
  keys.push_back(Bytes(
      "memory.filter_cache", +[](Config& c) -> uint64_t& { return c.store.filter_cache_bytes; }, 0, kHuge,
      "Memory for the documents that filters match, so that a repeated filter is not evaluated again; 0 keeps "
      "none. Taken of the collections' budget once one with fields is loaded, an eighth of it at most; taken again "
      "once a request asks those without fields for some slots."));
  keys.push_back(Choice<int>(
      "memory.code_planes", {"4", "2", "1", "0"}, {4, 2, 1, 0},
      +[](Config& c) -> int& { return c.store.max_code_planes; },
      "Planes of codes that are loaded at most, of collections that have them and as far as memory holds them; with 0 "
      "every candidate is scored."));
  keys.push_back(Bool(
      "store.verify_checksums", +[](Config& c) -> bool& { return c.store.verify_checksums; },
      "Hash every shard while it loads; values are checked in any case."));
  keys.push_back(Count(
      "store.load_threads", +[](Config& c) -> int& { return c.store.load_threads; }, 1, 64,
      "Shards read at the same time."));
  keys.push_back(StringList(
      "store.allowed_roots", +[](Config& c) -> std::vector<std::string>& { return c.allowed_roots; },
      "Folders that clients may load, create and snapshot collections in; none means that they may not."));
}

void AddEngineKeys(std::vector<Key>& keys) {
  keys.push_back(Count(
      "engine.lanes", +[](Config& c) -> int& { return c.engine.num_lanes; }, 1, 16,
      "Batches in flight at the same time; each has its own workspace on every device."));
  keys.push_back(Count(
      "engine.max_query_tokens", +[](Config& c) -> int64_t& { return c.engine.executor.max_query_tokens; }, 1, kMi,
      "Query tokens of one scoring call that a lane has room for."));
  keys.push_back(Count(
      "engine.max_candidates", +[](Config& c) -> int64_t& { return c.engine.executor.max_candidates; }, 1,
      uint64_t{1} << 32, "Candidates of one scoring call that a lane has room for."));
  keys.push_back(Count(
      "engine.max_dim", +[](Config& c) -> int32_t& { return c.engine.executor.max_dim; }, kMinDim, kMaxDim,
      "Widest token vectors that a lane has room for."));
  keys.push_back(Bytes(
      "engine.max_staged_bytes", +[](Config& c) -> int64_t& { return c.engine.executor.max_staged_bytes; }, kMi,
      64 * kGi, "Inline documents of one scoring call that a lane has room for."));
  keys.push_back(Count(
      "engine.max_staged_documents", +[](Config& c) -> int64_t& { return c.engine.executor.max_staged_documents; }, 1,
      kGi, "Inline documents of one scoring call, by number."));
  keys.push_back(Choice<std::optional<store::OnDeviceLoss>>(
      "engine.on_device_loss", {"auto", "exit", "degrade"},
      {std::nullopt, store::OnDeviceLoss::kExit, store::OnDeviceLoss::kDegrade},
      +[](Config& c) -> std::optional<store::OnDeviceLoss>& { return c.on_device_loss; },
      "A lost device ends the server (exit), or takes only its shards out (degrade); auto is exit with one device and "
      "degrade with several."));
  keys.push_back(Count(
      "batching.max_queue_work", +[](Config& c) -> uint64_t& { return c.batching.max_queue_work; }, 1, kHuge,
      "Token pairs that may wait; a request beyond it gets RESOURCE_EXHAUSTED."));
  keys.push_back(Count(
      "batching.max_queue_jobs", +[](Config& c) -> int64_t& { return c.batching.max_queue_jobs; }, 1, 10'000'000,
      "Requests that may wait."));
  keys.push_back(Bytes(
      "batching.max_queue_bytes", +[](Config& c) -> uint64_t& { return c.batching.max_queue_bytes; }, kMi, kHuge,
      "Host memory that waiting requests may hold; one beyond it gets RESOURCE_EXHAUSTED."));
  keys.push_back(Duration(
      "batching.max_queue_time", +[](Config& c) -> absl::Duration& { return c.batching.max_queue_time; },
      absl::Hours(1),
      "How long a request may wait until it is scored; one that would or does wait longer gets RESOURCE_EXHAUSTED; 0 "
      "means no limit."));
  keys.push_back(MetadataKey(
      "batching.client_key", +[](Config& c) -> std::string& { return c.client_key; },
      "gRPC metadata key, or HTTP header, that names the client for fairness; without it, or empty, its address "
      "does."));
  keys.push_back(Duration(
      "batching.max_batch_delay", +[](Config& c) -> absl::Duration& { return c.batching.max_batch_delay; },
      absl::Seconds(1), "How long a free lane may hold back a small batch so that others can join; 0 never does."));
  keys.push_back(Count(
      "batching.max_batch_work", +[](Config& c) -> uint64_t& { return c.batching.max_batch_work; }, 1, kHuge,
      "Token pairs at which a batch is full."));
  keys.push_back(Count(
      "batching.max_batch_queries", +[](Config& c) -> int& { return c.batching.max_batch_queries; }, 1, 4096,
      "Queries at which a batch is full."));
  keys.push_back(Duration(
      "batching.starvation_limit", +[](Config& c) -> absl::Duration& { return c.batching.starvation_limit; },
      absl::Hours(1), "A request that waited this long goes before newer ones of higher priority."));
}

void AddLimitKeys(std::vector<Key>& keys) {
  keys.push_back(Count(
      "limits.max_queries_per_request", +[](Config& c) -> int64_t& { return c.limits.max_queries_per_request; }, 1,
      4096, "Queries of one request."));
  keys.push_back(Count(
      "limits.max_query_tokens", +[](Config& c) -> int64_t& { return c.limits.max_query_tokens; }, 1, kMaxQueryTokens,
      "Tokens of one query."));
  keys.push_back(Count(
      "limits.max_document_tokens", +[](Config& c) -> int64_t& { return c.limits.max_document_tokens; }, 1,
      kMaxDocumentTokens, "Tokens of one inline document."));
  keys.push_back(Count(
      "limits.max_candidates_per_query", +[](Config& c) -> int64_t& { return c.limits.max_candidates_per_query; }, 1,
      kGi, "Listed ids of one query; the whole collection is not bounded by it."));
  keys.push_back(Count(
      "limits.max_inline_documents", +[](Config& c) -> int64_t& { return c.limits.max_inline_documents; }, 1, kMi,
      "Inline documents of one query."));
  keys.push_back(Count(
      "limits.max_top_k", +[](Config& c) -> int64_t& { return c.limits.max_top_k; }, 1, kMaxTopK,
      "Results of one query: offset + top_k."));
  keys.push_back(Count(
      "limits.default_top_k", +[](Config& c) -> int64_t& { return c.limits.default_top_k; }, 1, kMaxTopK,
      "Results of a query whose top_k is 0."));
  keys.push_back(Count(
      "limits.max_request_work", +[](Config& c) -> uint64_t& { return c.limits.max_request_work; }, 1, kHuge,
      "Token pairs of one request: query tokens x candidate tokens, summed."));
  keys.push_back(Count(
      "limits.max_alignments", +[](Config& c) -> int64_t& { return c.limits.max_alignments; }, 1, kGi,
      "Token matches one request may ask for: (offset + top_k) x query tokens, summed."));
  keys.push_back(Bytes(
      "limits.max_request_bytes", +[](Config& c) -> uint64_t& { return c.limits.max_request_bytes; }, kKi, 2 * kGi - 1,
      "One gRPC message on the wire."));
  keys.push_back(Bytes(
      "limits.max_answer_bytes", +[](Config& c) -> uint64_t& { return c.limits.max_answer_bytes; }, kKi, kGi,
      "One answer, with its payloads, ids and alignments; a request for more is refused."));
}

void AddServerKeys(std::vector<Key>& keys) {
  keys.push_back(Text(
      "server.port_file", "path", +[](Config& c) -> std::string& { return c.server.port_file; },
      "File that gets the ports and the process id as JSON once the server is ready; empty: none."));
  keys.push_back(Duration(
      "server.shutdown_delay", +[](Config& c) -> absl::Duration& { return c.server.shutdown_delay; }, absl::Hours(1),
      "After SIGTERM: time not ready, and still serving, for load balancers to notice."));
  keys.push_back(Duration(
      "server.shutdown_grace", +[](Config& c) -> absl::Duration& { return c.server.shutdown_grace; }, absl::Hours(24),
      "After the delay: time that accepted requests have to finish."));
  keys.push_back(Text(
      "auth.tokens_file", "path", +[](Config& c) -> std::string& { return c.auth.tokens_file; },
      "Bearer tokens, one per line, that calls must carry; empty: everyone may search."));
  keys.push_back(Text(
      "auth.write_tokens_file", "path", +[](Config& c) -> std::string& { return c.auth.write_tokens_file; },
      "Bearer tokens that may search and write documents of live collections; empty: those of auth.admin_tokens_file "
      "may write or, without that, who may search."));
  keys.push_back(Text(
      "auth.admin_tokens_file", "path", +[](Config& c) -> std::string& { return c.auth.admin_tokens_file; },
      "Bearer tokens that may do everything; those of the other files then may only search or write; empty: those of "
      "auth.write_tokens_file may do everything or, without that, who may search."));
  keys.push_back(Text(
      "tls.cert_file", "path", +[](Config& c) -> std::string& { return c.tls.cert_file; },
      "Certificate chain of the ports (http.tls), PEM; empty: plain text."));
  keys.push_back(Text(
      "tls.key_file", "path", +[](Config& c) -> std::string& { return c.tls.key_file; },
      "Private key of tls.cert_file, PEM."));
  keys.push_back(Text(
      "tls.client_ca_file", "path", +[](Config& c) -> std::string& { return c.tls.client_ca_file; },
      "Authorities whose certificate a client must show, PEM; empty: none needed."));
  keys.push_back(Choice<std::string>(
      "log.level", {"trace", "debug", "info", "warn", "error", "off"},
      {"trace", "debug", "info", "warn", "error", "off"}, +[](Config& c) -> std::string& { return c.log.level; },
      "Least severe messages to log; debug adds one line per rerank request."));
  keys.push_back(Choice<std::string>(
      "log.format", {"text", "json"}, {"text", "json"}, +[](Config& c) -> std::string& { return c.log.format; },
      "Lines for people, or one JSON object per line."));
  keys.push_back(Duration(
      "log.slow_request", +[](Config& c) -> absl::Duration& { return c.log.slow_request; }, absl::Hours(1),
      "A rerank request that takes this long or longer is warned of, at most ten times a second; 0 warns of none."));
  keys.push_back(Bool(
      "admin.enabled", +[](Config& c) -> bool& { return c.admin.enabled; },
      "Serve the Admin service (load, reload, unload, create, compact, snapshot)."));
}

}  // namespace

const std::vector<Key>& Keys() {
  static const std::vector<Key>* const keys = [] {
    auto* all = new std::vector<Key>;
    AddNetworkKeys(*all);
    AddBackendKeys(*all);
    AddEngineKeys(*all);
    AddLimitKeys(*all);
    AddLiveKeys(*all);
    AddNatsKeys(*all);
    AddClusterKeys(*all);
    AddServerKeys(*all);
    AddEncoderKeys(*all);
    AddTracingKeys(*all);
    return all;
  }();
  return *keys;
}

const Key* FindKey(std::string_view name) {
  for (const Key& key : Keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string EnvironmentName(std::string_view key_name) {
  std::string name = absl::StrCat("MAXSIM_", absl::AsciiStrToUpper(std::string(key_name)));
  for (char& letter : name) {
    if (letter == '.') letter = '_';
  }
  return name;
}

}  // namespace maxsim::config
