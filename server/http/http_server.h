// The HTTP port. It serves rerank calls in the formats of several services, /v1/explain, /v1/collections (lists and
// changes collections and their documents), /v1/stats, /metrics, /livez, /readyz, /openapi.json, and the console at /.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/observability/activity.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"
#include "server/service/call/worker.h"
#include "server/service/tenant_gate/error_source.h"
#include "server/tls/tls_certificates.h"
#include "server/tracing/tracer.h"

namespace maxsim::http {

// Which plain-text requests a port with certificates answers.
enum class PlainText { kProbes, kNothing };  // kProbes: the probes and /metrics

struct HttpOptions {
  std::string host;
  int port = 0;                      // 0 picks a free one
  int threads = 8;                   // that handle the calls below; connections need none
  int max_concurrent_requests = 64;  // rerank, explain and document calls, and changes of collections
  uint64_t max_body_bytes = 0;
  uint64_t max_body_memory = 0;    // for all bodies together
  absl::Duration request_timeout;  // zero for none
  // The next four are as in TransportOptions, except that a time of zero means no limit.
  int max_idle_connections_per_peer = 256;
  int max_idle_connections = 1024;
  absl::Duration idle_timeout = absl::Seconds(60);
  absl::Duration body_timeout = absl::Seconds(30);
  PlainText plain_text = PlainText::kProbes;  // ignored without certificates
  bool root_documents_are_texts = false;      // treat strings in `documents` as texts even without /text
  std::vector<std::string> allowed_hosts;     // further host names of this server that browsers may use; "*": any
  std::string client_header;                  // header by which a client identifies itself; "": none
  bool console = false;                       // serve the console at /
  std::string console_questions;              // file of recorded questions for it; "": none
};

// Objects that the handlers use. All must outlive the server.
struct HttpDependencies {
  service::RerankApi* rerank = nullptr;
  service::ExplainApi* explain = nullptr;
  service::DocumentApi* documents = nullptr;
  service::CollectionApi* collections = nullptr;
  service::ErrorSource error_source = service::ErrorSource::kRouter;  // tenants see less of a router's collections
  service::Worker* worker = nullptr;              // runs the changes of collections; if null, clients cannot make any
  std::function<absl::Status()> accepts_changes;  // OK, or why no change is accepted now; thread-safe
  const service::Authenticator* authenticator = nullptr;
  Metrics* metrics = nullptr;
  const Activity* activity = nullptr;
  const TlsCertificates* certificates = nullptr;  // loaded; if null, the port is plain text
  std::function<absl::Status()> readiness;        // OK, or why the server is not ready; thread-safe
  std::function<std::string()> losses;      // lines about lost devices or replicas, or ""; thread-safe; may be null
  const tracing::Tracer* tracer = nullptr;  // if null, calls are not traced
};

// Serves from its own threads between Start and Stop. If the server has tokens, calls of the API and the console's
// recorded questions need a token; /metrics, the probes and the console's files do not. If the server asks for client
// certificates, all paths except the probes and /metrics need one. The probes never wait for rerank calls.
class HttpServer {
 public:
  HttpServer(const HttpOptions& options, HttpDependencies dependencies);
  ~HttpServer();  // stops, without grace

  // Binds and begins to serve; returns the port. Returns UNAVAILABLE with the system's reason if it cannot listen on
  // the address, and the errors of ReadQuestions if the file of questions is invalid.
  absl::StatusOr<int> Start();

  // Closes the port, answers the requests that have arrived, and joins the threads. After `grace`, cuts off clients
  // that have not read their answers. Idempotent.
  void Stop(absl::Duration grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::http
