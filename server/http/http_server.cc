#include "server/http/http_server.h"

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "httplib.h"
#include "server/http/rerank_json.h"
#include "server/logging.h"
#include "server/rpc/status.h"

namespace maxsim::http {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kMetrics[] = "text/plain; version=0.0.4; charset=utf-8";

// An idle connection keeps a thread, so it is closed soon; a client that sends slowly is cut off.
constexpr int kKeepAliveSeconds = 2;
constexpr int kReadTimeoutSeconds = 10;
constexpr int kWriteTimeoutSeconds = 10;

void Refuse(const absl::Status& status, httplib::Response& response) {
  response.status = rpc::ToHttp(status.code());
  if (const uint32_t ms = rpc::RetryDelayMs(status); ms > 0) {
    response.set_header("Retry-After", absl::StrCat((ms + 999) / 1000));
  }
  response.set_content(FormatError(status) + "\n", kJson);
}

// What httplib refuses by itself (no such path, body too large, not HTTP) has no body.
httplib::Server::HandlerResponse ExplainError(const httplib::Request& request, httplib::Response& response) {
  if (!response.body.empty()) return httplib::Server::HandlerResponse::Unhandled;
  absl::Status status = absl::InvalidArgumentError("the request is not one that this server understands");
  if (response.status == 404)
    status = absl::NotFoundError(absl::StrCat("no such path: ", request.method, " ", request.path));
  if (response.status == 413) status = absl::InvalidArgumentError("the body is larger than http.max_body_bytes");
  response.set_content(FormatError(status) + "\n", kJson);
  return httplib::Server::HandlerResponse::Handled;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, HttpDependencies dependencies)
      : options_(std::move(options)), deps_(std::move(dependencies)) {
    Configure();
    AddRoutes();
  }

  ~Impl() { Stop(); }

  absl::StatusOr<int> Start() {
    errno = 0;
    int port = options_.port;
    if (port == 0) {
      port = server_.bind_to_any_port(options_.host);
    } else if (!server_.bind_to_port(options_.host, port)) {
      port = -1;
    }
    if (port <= 0) {
      return absl::UnavailableError(absl::StrCat("http.address: cannot listen on ", options_.host, ":", options_.port,
                                                 ": ", errno == 0 ? "no such address" : std::strerror(errno)));
    }
    thread_ = std::thread([this] {
      if (!server_.listen_after_bind()) spdlog::error("the HTTP port stopped listening");
    });
    // Stop() before the loop has begun would be lost.
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return port;
  }

  void Stop() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }

 private:
  void Configure() {
    server_.new_task_queue = [threads = options_.threads] {
      return new httplib::ThreadPool(static_cast<size_t>(threads));
    };
    server_.set_payload_max_length(options_.max_body_bytes);
    server_.set_keep_alive_timeout(kKeepAliveSeconds);
    server_.set_read_timeout(kReadTimeoutSeconds);
    server_.set_write_timeout(kWriteTimeoutSeconds);
    server_.set_tcp_nodelay(true);
    // Not SO_REUSEPORT, httplib's default: a second server on the port must fail, not share it.
    server_.set_socket_options([](int socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    // Before the body is read: a compressed one could unfold to any size.
    server_.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!request.has_header("Content-Encoding")) return httplib::Server::HandlerResponse::Unhandled;
      Refuse(absl::InvalidArgumentError("Content-Encoding: compressed bodies are not accepted"), response);
      response.status = 415;
      return httplib::Server::HandlerResponse::Handled;
    });
    server_.set_error_handler(httplib::Server::HandlerWithResponse(ExplainError));
    server_.set_exception_handler(
        [](const httplib::Request& request, httplib::Response& response, const std::exception_ptr&) {
          log::Write(spdlog::level::err, "http_handler_exception", {{"path", request.path}});
          Refuse(absl::InternalError("internal error"), response);
        });
  }

  void AddRoutes() {
    server_.Get("/livez",
                [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", kText); });
    server_.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const absl::Status status = deps_.readiness();
      response.status = status.ok() ? 200 : 503;
      response.set_content(status.ok() ? "ok\n" : absl::StrCat(status.message(), "\n"), kText);
    });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(deps_.metrics->Expose(), kMetrics);
    });
    server_.Get("/v1/collections", [this](const httplib::Request& request, httplib::Response& response) {
      if (absl::Status status = Authenticate(request); !status.ok()) return Refuse(status, response);
      response.set_content(FormatCollections(deps_.collections->List()) + "\n", kJson);
    });
    // With a reader of our own: httplib holds bodies that call themselves forms, as curl's do by default, to 8 KiB.
    server_.Post("/v1/rerank", [this](const httplib::Request& request, httplib::Response& response,
                                      const httplib::ContentReader& reader) {
      std::string body;
      bool too_large = false;
      const bool complete = reader([&](const char* data, size_t size) {
        too_large = size > options_.max_body_bytes - body.size();
        if (!too_large) body.append(data, size);
        return !too_large;
      });
      if (complete) return Rerank(request, body, response);
      // A body in chunks shows its size only now; otherwise httplib has set the status and the error handler explains.
      if (too_large) response.status = 413;
    });
  }

  absl::Status Authenticate(const httplib::Request& request) const {
    return deps_.authenticator->Check(request.get_header_value("Authorization"));
  }

  // Refuses a call that never came to the service, which would have counted it.
  void RefuseAndCount(const absl::Status& status, absl::Time arrival, httplib::Response& response) {
    deps_.metrics->CountRequest("http", status.code(), absl::Now() - arrival);
    if (status.code() == absl::StatusCode::kInvalidArgument) deps_.metrics->CountRejection(Rejection::kInvalid);
    Refuse(status, response);
  }

  void Rerank(const httplib::Request& http_request, const std::string& body, httplib::Response& http_response) {
    const absl::Time arrival = absl::Now();
    if (absl::Status status = Authenticate(http_request); !status.ok()) {
      return RefuseAndCount(status, arrival, http_response);
    }
    absl::StatusOr<v1::RerankRequest> request = ParseRerankRequest(body);
    if (!request.ok()) return RefuseAndCount(request.status(), arrival, http_response);
    // Shared: the scheduler's thread may still be in set_value when this one has the answer.
    auto answered = std::make_shared<std::promise<absl::StatusOr<v1::RerankResponse>>>();
    std::future<absl::StatusOr<v1::RerankResponse>> answer = answered->get_future();
    deps_.rerank->Rerank(
        *request,
        {.method = "http", .arrival = arrival, .deadline = arrival + options_.request_timeout, .cancelled = nullptr},
        [answered](absl::StatusOr<v1::RerankResponse> response) { answered->set_value(std::move(response)); });
    // The scheduler answers every job it accepted, late ones with DEADLINE_EXCEEDED.
    const absl::StatusOr<v1::RerankResponse> response = answer.get();
    if (!response.ok()) return Refuse(response.status(), http_response);
    http_response.set_content(FormatRerankResponse(*request, *response) + "\n", kJson);
  }

  const HttpOptions options_;
  const HttpDependencies deps_;
  httplib::Server server_;
  std::thread thread_;
};

HttpServer::HttpServer(HttpOptions options, HttpDependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(dependencies))) {}
HttpServer::~HttpServer() = default;
absl::StatusOr<int> HttpServer::Start() { return impl_->Start(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace maxsim::http
