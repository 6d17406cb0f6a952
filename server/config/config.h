// The configuration of a server, as plain values with their defaults. server/config/keys.h gives each value its name,
// unit and range. server/config/load.h reads the values from a file, the environment and the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/scheduler.h"
#include "server/cluster/groups/cluster_options.h"
#include "server/encoder/http_options.h"
#include "server/engine/engine.h"
#include "server/live/local/live_options.h"
#include "server/service/call/limits.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/residency.h"

namespace maxsim::config {

// Which paths of the HTTP port require TLS.
enum class HttpTls { kAuto, kOff, kApi, kAll };  // kAuto: kApi if there is a certificate, else kOff

// Whether strings in `documents` of an HTTP rerank call are ids of stored documents or texts. Not for paths under
// /text.
enum class RootDocuments { kIds, kTexts };

enum class BackendKind { kAuto, kCpu, kCuda };

// A collection that is loaded at start.
struct CollectionConfig {
  std::string name;  // collection::IsCollectionName
  std::string path;  // folder with a collection.json; a relative one starts at the working directory
  store::Residency residency = store::Residency::kAuto;
  store::Replication replication = store::Replication::kAuto;
  bool live = false;  // create a log if the folder has none; a folder that has one is live in any case

  friend bool operator==(const CollectionConfig&, const CollectionConfig&) = default;
};

struct Config {
  struct {
    std::string address = "0.0.0.0:7070";  // host:port; port 0 picks a free one
    std::string unix_socket;               // path of a socket where gRPC listens as well; "": none
    int max_connections = 8192;
    int max_connections_per_peer = 1024;  // of one IP address; 0: no bound
    // A connection is closed if its client has made no call within this time. If calls need a token, only calls with a
    // known token and health checks count.
    absl::Duration first_call_timeout = absl::Seconds(30);
    absl::Duration max_connection_idle = absl::Minutes(30);  // without a call; zero: no bound
    // Limits gRPC's memory for messages that are still being received and for its own records of calls and connections.
    // 0 means four times limits.max_request_bytes, but at least 512 MiB.
    uint64_t max_memory_bytes = 0;
    int stream_in_flight = 64;  // requests of one RerankStream that may be unanswered at a time
    uint64_t max_unread_answer_bytes = uint64_t{256} << 20;       // of answers that clients have not read; 0: no bound
    int max_concurrent_streams = 4096;                            // calls of one connection at a time
    absl::Duration max_connection_age;                            // zero: none; gRPC varies it randomly by 10 %
    absl::Duration max_connection_age_grace = absl::Seconds(30);  // after max_connection_age, for calls in progress
    bool reflection = true;                                       // tools may ask which services there are
  } grpc;

  struct {
    std::string address = "0.0.0.0:7071";  // "" switches HTTP off
    HttpTls tls = HttpTls::kAuto;
    int threads = 8;                   // number of threads that read and write JSON
    int max_concurrent_requests = 64;  // /v1/rerank calls at a time, including those still being received
    uint64_t max_body_bytes = uint64_t{16} << 20;
    uint64_t max_body_memory = 0;                        // for all bodies together; 0: 16 times max_body_bytes
    absl::Duration request_timeout = absl::Seconds(30);  // deadline of a /v1/rerank call; zero: none
    int max_idle_connections = 1024;                     // connections without a call, in total ...
    int max_idle_connections_per_peer = 256;             // ... and per IP address
    absl::Duration idle_timeout = absl::Seconds(60);     // after which a connection without a call is closed
    absl::Duration body_timeout = absl::Seconds(30);     // for receiving a body
    RootDocuments root_documents = RootDocuments::kIds;  // meaning of strings on paths without /text
    std::vector<std::string> allowed_hosts;              // further names of this server for browsers; "*": any
    bool console = true;                                 // serve the console at /
    std::string console_questions;                       // file of recorded questions for it; "": none
  } http;

  struct {
    BackendKind kind = BackendKind::kAuto;
    std::vector<int> devices = {0};  // CUDA device ordinals; none: all devices of the machine
    int cpu_threads = 0;             // 0: one per core
    std::string cpu_isa;             // "": the best that the CPU has
    CudaOptions cuda;                // for every CUDA device; its `device` is ignored
  } backend;

  store::StoreOptions store;
  std::vector<std::string> allowed_roots;  // folders that clients may load collections from; empty: none
  engine::EngineOptions engine;            // executor.max_queries follows from the batching and request limits
  // nullopt means kExit with one device, and kDegrade with several.
  std::optional<store::OnDeviceLoss> on_device_loss;
  batching::SchedulerOptions batching;
  std::string client_key = "x-client-id";  // batching.client_key: metadata or header by which clients name themselves
  service::RequestLimits limits;
  live::LiveOptions live;  // for every live collection; a compact_after of zero means no bound (LiveOptionsOf)

  struct {
    std::string port_file;                             // "": none
    absl::Duration shutdown_delay = absl::Seconds(5);  // how long it still serves after it reports not ready
    absl::Duration shutdown_grace = absl::Seconds(30);
  } server;

  struct {
    std::string tokens_file;        // "": everyone may search
    std::string write_tokens_file;  // "": admin tokens may write or, without admin_tokens_file, search tokens
    std::string admin_tokens_file;  // "": write tokens may administer or, without write_tokens_file, search tokens
  } auth;

  struct {
    std::string cert_file;  // "": plain text
    std::string key_file;
    std::string client_ca_file;  // "": clients need no certificate
  } tls;

  struct {
    std::string level = "info";
    std::string format = "text";
    absl::Duration slow_request = absl::ZeroDuration();  // rerank requests this slow are logged as warnings; zero: none
  } log;

  struct {
    bool enabled = true;
  } admin;

  struct {
    encoder::HttpEncoderOptions http;           // its url "": texts cannot be encoded
    uint64_t cache_bytes = uint64_t{64} << 20;  // of token vectors of query texts; 0: none are kept
  } encoder;

  struct {
    std::string endpoint;  // "": off
    double sample_ratio = 0.01;
    std::string service_name = "maxsimd";
    int max_queued_spans = 4096;
  } tracing;

  cluster::ClusterOptions cluster;

  std::vector<CollectionConfig> collections;
};

// Checks what no single key can check: values that depend on one another, and duplicate collection names. Returns
// INVALID_ARGUMENT naming the keys.
absl::Status Validate(const Config& config);

// Returns http.tls without kAuto.
HttpTls HttpTlsOf(const Config& config);

// Returns http.max_body_memory, or its default if it is 0.
uint64_t HttpBodyMemoryOf(const Config& config);

// Returns warnings about valid settings that leave the server more open than one may expect. Each is one line of text.
std::vector<std::string> Warnings(const Config& config);

}  // namespace maxsim::config
