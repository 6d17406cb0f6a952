#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "server/http/access.h"
#include "server/http/collections/collection_calls.h"
#include "server/http/collections/collection_path.h"
#include "server/http/console.h"
#include "server/http/documents/document_calls.h"
#include "server/http/embedded_files.h"
#include "server/http/known_paths.h"
#include "server/http/models.h"
#include "server/http/rerank/rejections.h"
#include "server/http/rerank/rerank_calls.h"
#include "server/http/rerank/rerank_json.h"
#include "server/http/rerank/rerank_path.h"
#include "server/http/rerank/responses.h"
#include "server/http/stats_json.h"
#include "server/http/text/http_status.h"
#include "server/http/text/throttled_cache.h"
#include "server/http/tls_policy.h"
#include "server/http/transport/call_end.h"
#include "server/http/transport/text_places.h"
#include "server/http/transport/transport.h"
#include "server/observability/logging.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/client_of.h"
#include "server/service/call/status.h"
#include "server/service/hidden_folders.h"

namespace maxsim::http {
namespace {

// Returns the limit, or an infinite one if the limit is zero (switched off).
absl::Duration OrNone(absl::Duration limit) { return limit > absl::ZeroDuration() ? limit : absl::InfiniteDuration(); }

}  // namespace

class HttpServer::Impl final : private Application {
 public:
  Impl(const HttpOptions& options, HttpDependencies dependencies)
      : request_timeout_(OrNone(options.request_timeout)),
        has_console_(options.console),
        console_questions_(options.console_questions),
        text_places_(std::max(1, options.max_concurrent_requests / 2)),
        plain_text_(options.plain_text),
        access_(BrowserGuard(options.host, options.allowed_hosts), dependencies.authenticator, dependencies.collections,
                dependencies.error_source),
        max_requests_(options.max_concurrent_requests),
        root_documents_are_texts_(options.root_documents_are_texts),
        deps_(std::move(dependencies)),
        pool_(static_cast<size_t>(options.threads)),
        document_calls_(deps_.documents, &text_places_, &pool_),
        collection_calls_(deps_.collections, deps_.worker, deps_.accepts_changes),
        rerank_calls_(deps_.rerank, deps_.explain, deps_.metrics, &text_places_, &pool_,
                      options.root_documents_are_texts),
        transport_({.host = options.host,
                    .port = options.port,
                    .max_body_bytes = options.max_body_bytes,
                    .max_body_memory = options.max_body_memory,
                    .max_requests = options.max_concurrent_requests,
                    .client_header = options.client_header,
                    .reads_trace_headers = deps_.tracer != nullptr && deps_.tracer->is_on(),
                    .max_idle_connections_per_peer = options.max_idle_connections_per_peer,
                    .max_idle_connections = options.max_idle_connections,
                    .certificates = deps_.certificates,
                    .idle_timeout = OrNone(options.idle_timeout),
                    .body_timeout = OrNone(options.body_timeout)},
                   this) {}

  ~Impl() override { Stop(absl::ZeroDuration()); }

  absl::StatusOr<int> Start() {
    if (has_console_) {
      absl::StatusOr<Console> console = Console::Open(console_questions_);
      if (!console.ok()) return console.status();
      console_ = *std::move(console);
    }
    absl::StatusOr<int> port = transport_.Start();
    if (port.ok()) return port;
    return absl::Status(port.status().code(), absl::StrCat("http.address: ", port.status().message()));
  }

  void Stop(absl::Duration grace) {
    transport_.Stop(grace);
    pool_.join();
  }

 private:
  // Returns the name that the metrics give to a call: a rerank, explain or document call, or a change of a
  // collection. Calls count towards http.max_concurrent_requests. Returns null for any other request.
  const char* CallOf(const Request& request) const {
    if (const std::optional<DocumentCall> call = DocumentCallOf(request)) return MethodOf(*call);
    if (const std::optional<CollectionCall> call = collection_calls_.CallOf(request)) return MethodOf(*call);
    if (request.method != "POST") return nullptr;
    if (request.path == kExplainPath) return kExplainMethod;
    return FindRerankPath(request.path) == nullptr ? nullptr : kRerankMethod;
  }

  // Returns the method name under which the metrics count a request. Requests under kOtherMethod are counted only if
  // they fail: probes, scrapes, files of the console, unknown paths or methods, and requests that cannot be parsed.
  const char* CountedAs(const Request& request) const {
    if (const char* const call = CallOf(request); call != nullptr) return call;
    if (request.method != "GET" && request.method != "HEAD") return kOtherMethod;
    const bool is_info = request.path == kCollectionsPath || request.path == kStatsPath ||
                         request.path == kQuestionsPath || ParseModelPath(request.path).has_value() ||
                         CollectionOf(request.path).has_value();
    return is_info ? kInfoMethod : kOtherMethod;
  }

  std::string_view SpanNameOf(const Request& request) const {
    if (const std::optional<DocumentCall> call = DocumentCallOf(request)) return http::SpanNameOf(*call);
    if (const std::optional<CollectionCall> call = collection_calls_.CallOf(request)) return http::SpanNameOf(*call);
    return request.path == kExplainPath ? service::kExplainSpan : service::kRerankSpan;
  }

  // Returns the scope that the token of a call needs.
  service::Scope ScopeOf(const Request& request) const {
    if (const std::optional<DocumentCall> call = DocumentCallOf(request)) return http::ScopeOf(*call);
    return collection_calls_.CallOf(request).has_value() ? service::Scope::kAdmin : service::Scope::kSearch;
  }

  std::optional<Response> Begin(const Request& request) override {
    if (absl::Status status = CheckTlsOf(request); !status.ok()) return Refuse(request, status);
    if (CallOf(request) != nullptr) return BeginCall(request);
    if (request.method == "GET" || request.method == "HEAD") {
      if (request.path == kLivePath) return Text(200, "ok\n");
      if (request.path == kReadyPath) {
        return AnswerReady(request);
      }
      if (request.path == kMetricsPath) {
        if (absl::Status status = access_.CheckServerFacts(request); !status.ok()) return Refuse(request, status);
        return Response{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = MetricsText()};
      }
      if (request.path == kOpenApiPath) {
        return Response{.content_type = "application/json", .body = std::string(EmbeddedFiles().front().bytes)};
      }
      if (request.path == kCollectionsPath) return AnswerAll(request);
      if (request.path == kStatsPath) {
        if (absl::Status status = access_.Check(request, service::Scope::kSearch); !status.ok()) {
          return Refuse(request, status);
        }
        return Counted(request, Json(200, StatsText()));
      }
      if (const std::optional<std::string> name = CollectionOf(request.path)) return AnswerOne(request, *name);
      if (const std::optional<ModelPath> path = ParseModelPath(request.path)) return AnswerModel(request, *path);
      if (console_.has_value() && console_->Knows(request.path)) return AnswerConsole(request);
    }
    return NotThere(request);
  }

  absl::Status CheckTlsOf(const Request& request) const {
    if (deps_.certificates == nullptr) return absl::OkStatus();
    return CheckTls(request, plain_text_, deps_.certificates->asks_clients());
  }

  Response AnswerReady(const Request& request) {
    const absl::Status ready = deps_.readiness();
    // The reasons name collections and counts.
    if (!access_.CheckServerFacts(request).ok())
      return Text(ready.ok() ? 200 : 503, ready.ok() ? "ok\n" : "not ready\n");
    if (!ready.ok()) return Text(503, absl::StrCat(service::WithoutFolders(std::string(ready.message())), "\n"));
    return Text(200, absl::StrCat("ok\n", deps_.losses == nullptr ? "" : service::WithoutFolders(deps_.losses())));
  }

  Response AnswerModel(const Request& request, const ModelPath& path) {
    // Clients call kAuth without a token, to find out whether they need one. All other paths need a token if the server
    // has tokens.
    absl::StatusOr<service::Caller> caller = service::Caller();
    if (path.kind != ModelPath::Kind::kAuth) caller = access_.Identify(request, service::Scope::kSearch);
    if (!caller.ok()) return Refuse(request, caller.status());
    const std::unique_ptr<v1::EncoderInfo> encoder = deps_.rerank->encoder();
    return Counted(request, AnswerModels(path, {.collections = access_.CollectionsFor(request, *caller),
                                                .encoder = encoder.get(),
                                                .limits = deps_.rerank->limits(),
                                                .max_requests = max_requests_,
                                                .needs_token = access_.needs_token(),
                                                .root_documents_are_texts = root_documents_are_texts_}));
  }

  Response AnswerConsole(const Request& request) {
    if (request.path != kQuestionsPath) return console_->Answer(request);
    if (absl::Status status = access_.Check(request, service::Scope::kSearch); !status.ok()) {
      return Refuse(request, status);
    }
    return Counted(request, console_->Answer(request));
  }

  std::string MetricsText() {
    return metrics_text_.Get([this] { return deps_.metrics->Expose(); });
  }
  std::string StatsText() {
    return stats_text_.Get([this] { return FormatStats(deps_.activity->history(), MonotonicNow()); });
  }

  Response AnswerAll(const Request& request) {
    const absl::StatusOr<service::Caller> caller = access_.Identify(request, service::Scope::kSearch);
    if (!caller.ok()) return Refuse(request, caller.status());
    return Counted(
        request, Json(200, FormatCollections(access_.CollectionsFor(request, *caller), deps_.rerank->encoder().get())));
  }

  Response AnswerOne(const Request& request, const std::string& name) {
    const absl::StatusOr<service::Caller> caller = access_.Identify(request, service::Scope::kSearch);
    if (!caller.ok()) return Refuse(request, caller.status());
    for (const v1::CollectionInfo& info : access_.CollectionsFor(request, *caller)) {
      if (info.name() == name) return Counted(request, Json(200, FormatCollection(info)));
    }
    return Refuse(request, absl::NotFoundError(absl::StrCat("no collection ", Quote(name))));
  }

  Response NotThere(const Request& request) {
    const std::string asked = absl::StrCat(request.method, " ", request.path);
    const std::optional<DocumentPath> documents = ParseDocumentPath(request.path);
    const std::optional<CollectionPath> collection = ParseCollectionPath(request.path);
    std::string methods(documents.has_value()                     ? MethodsOf(*documents)
                        : collection.has_value()                  ? MethodsOf(*collection, collection_calls_.exist())
                        : FindRerankPath(request.path) == nullptr ? ""
                                                                  : "POST");
    for (const KnownPath& known : kKnownPaths) {
      if (request.path == known.path) methods = known.methods;
    }
    const bool is_asset = console_.has_value() && console_->Knows(request.path);
    if (is_asset || ParseModelPath(request.path).has_value()) methods = "GET, HEAD";
    if (methods.empty()) {
      return CountedError(request, 404, absl::NotFoundError(absl::StrCat("no such path: ", asked)), MonotonicNow());
    }
    Response response = CountedError(
        request, 405, absl::UnimplementedError(absl::StrCat(asked, " is not allowed; use ", methods)), MonotonicNow());
    response.allow = methods;
    return response;
  }

  // Returns the caller of a call.
  absl::StatusOr<service::Caller> IdentifyCaller(const Request& request) const {
    return access_.Identify(request, ScopeOf(request));
  }

  // If the call can be refused before its body is received, returns the refusal.
  std::optional<Response> BeginCall(const Request& request) {
    if (absl::Status status = IdentifyCaller(request).status(); !status.ok()) return Refuse(request, status);
    const std::vector<std::string> codings = absl::StrSplit(request.content_encoding, ',', absl::SkipWhitespace());
    if (std::all_of(codings.begin(), codings.end(), [](const std::string& coding) {
          return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(coding), "identity");
        })) {
      return std::nullopt;
    }
    // Refuse compressed bodies, because they could expand to any size.
    return CountedError(request, 415,
                        absl::InvalidArgumentError("Content-Encoding: compressed bodies are not accepted"),
                        MonotonicNow());
  }

  void Handle(Request request, Reply reply) override {
    CallEnd end{.cancelled = request.cancelled, .closing = &closing_};
    if (request_timeout_ < absl::InfiniteDuration()) {
      end.deadline = CallEnd::Clock::now() + absl::ToChronoNanoseconds(request_timeout_);
    }
    auto once = std::make_shared<ReplyOnce>(
        service::FinishedCall{.metrics = deps_.metrics, .method = CallOf(request), .arrival = request.arrival},
        std::move(reply));
    boost::asio::post(pool_, [this, request = std::move(request), once = std::move(once), end]() mutable {
      // If this throws an exception, the destructor of `once` answers the call.
      Guarded<absl::Status>([&] {
        absl::StatusOr<service::Caller> caller = IdentifyCaller(request);
        if (!caller.ok()) {  // the token was withdrawn while the body arrived
          (*once)(Error(caller.status()));
          return absl::OkStatus();
        }
        service::CallContext context = ContextOf(request, *std::move(caller), once->record());
        if (DocumentCallOf(request).has_value()) {
          document_calls_.Handle(std::move(request), std::move(context), std::move(once), end);
        } else if (collection_calls_.CallOf(request).has_value()) {
          collection_calls_.Handle(request, std::move(context), std::move(once));
        } else if (request.path == kExplainPath) {
          rerank_calls_.Explain(std::move(request), std::move(context), std::move(once), end);
        } else {
          const RerankPath& path = *FindRerankPath(request.path);
          rerank_calls_.Rerank(std::move(request), path, std::move(context), std::move(once), end);
        }
        return absl::OkStatus();
      }).IgnoreError();
    });
  }

  void EndGrace() override { closing_ = true; }
  void OnConnections(size_t num_open) override { deps_.metrics->SetHttpConnections(num_open); }

  Response Refuse(const Request& request, int http_status, const absl::Status& why) override {
    absl::Status status = why;
    if (http_status == 429) {
      const char* const key = absl::IsUnavailable(why) ? "http.max_body_memory: " : "http.max_concurrent_requests: ";
      status = absl::ResourceExhaustedError(absl::StrCat(key, why.message()));
      client::SetRetryAfter(kBusyRetryDelay, status);
    }
    if (http_status == 413) {
      status = absl::InvalidArgumentError(absl::StrCat("http.max_body_bytes: ", why.message()));
    }
    return CountedError(request, http_status, status, MonotonicNow());
  }

  // Counts a request without a body that was answered immediately. It counts as NOT_FOUND if the answer is a 404,
  // else as OK.
  Response Counted(const Request& request, Response response) {
    const absl::StatusCode code = response.status == 404 ? absl::StatusCode::kNotFound : absl::StatusCode::kOk;
    deps_.metrics->CountRequest(CountedAs(request), code, absl::ZeroDuration());
    return response;
  }

  // Refuses a request before its body has been read, with the HTTP status of the error.
  Response Refuse(const Request& request, const absl::Status& status) {
    return CountedError(request, ToHttpCode(status.code()), status, MonotonicNow());
  }

  // Counts a request that is refused before its body has been read.
  Response CountedError(const Request& request, int http_status, const absl::Status& status, absl::Time arrival) {
    const char* const call = CountedAs(request);
    deps_.metrics->CountRequest(call, status.code(), MonotonicNow() - arrival);
    if (call != kRerankMethod) return Error(http_status, status);  // rejections are those of rerank requests
    CountRejectedCall(http_status, status, *deps_.metrics);
    return Error(http_status, status);
  }

  service::CallContext ContextOf(const Request& request, service::Caller caller, service::CallRecord* record) const {
    return {.method = CallOf(request),
            .arrival = request.arrival,
            .deadline = request.arrival + request_timeout_,
            .client = service::ClientOf(request.client_id, request.peer),
            .cancelled = request.cancelled,
            .span = StartSpan(request, SpanNameOf(request)),
            .record = record,
            .caller = std::move(caller)};
  }

  tracing::Span StartSpan(const Request& request, std::string_view name) const {
    if (deps_.tracer == nullptr || !deps_.tracer->is_on()) return {};
    return deps_.tracer->StartSpan(name, tracing::SpanKind::kServer,
                                   tracing::ReadParent(request.traceparent, request.tracestate), request.arrival);
  }

  const absl::Duration request_timeout_;
  const bool has_console_;
  const std::string console_questions_;
  std::optional<Console> console_;  // set before the first request; nullopt if the console is off
  TextPlaces text_places_;
  const PlainText plain_text_;
  const Access access_;
  const int max_requests_;
  const bool root_documents_are_texts_;
  const HttpDependencies deps_;
  std::atomic<bool> closing_{false};
  // Only the transport's thread uses these texts.
  ThrottledCache metrics_text_;
  ThrottledCache stats_text_;
  boost::asio::thread_pool pool_;
  DocumentCalls document_calls_;
  CollectionCalls collection_calls_;
  RerankCalls rerank_calls_;
  Transport transport_;
};

HttpServer::HttpServer(const HttpOptions& options, HttpDependencies dependencies)
    : impl_(std::make_unique<Impl>(options, std::move(dependencies))) {}
HttpServer::~HttpServer() = default;
absl::StatusOr<int> HttpServer::Start() { return impl_->Start(); }
void HttpServer::Stop(absl::Duration grace) { impl_->Stop(grace); }

}  // namespace maxsim::http
