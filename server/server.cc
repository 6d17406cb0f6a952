#include "server/server.h"

#include <malloc.h>

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/open_descriptors.h"
#include "base/thread_name.h"
#include "maxsim_version.h"
#include "server/config/values.h"
#include "server/descriptors.h"
#include "server/observability/logging.h"
#include "server/router_role.h"
#include "server/service/call/message_descriptors.h"
#include "server/service/tenant_gate/error_source.h"
#include "server/service/tenant_gate/tenant_view.h"
#include "server/serving_role.h"
#include "server/startup.h"
#include "server/trace_export.h"

namespace maxsim {
namespace {

// How often Role::CheckHealth is called. On a server with requests, the next request notices a lost device. These
// checks are for a server without requests.
constexpr std::chrono::milliseconds kHealthInterval(250);
constexpr int kTicksPerPoll = 20;  // GPU state, memory gauges and activity every 5 s, below the usual scrape interval
static_assert(absl::FromChrono(kTicksPerPoll * kHealthInterval) == Activity::kInterval);

constexpr int kTicksPerTrim = 240;  // a minute

// If the allocator keeps more free memory than this, the server gives it back to the system.
constexpr size_t kTrimAboveBytes = size_t{256} << 20;

// How often the server calls its own gRPC port as a probe, and the time that the port has to answer. After two failures
// in a row the server is not ready.
constexpr absl::Duration kProbeInterval = absl::Seconds(1);
constexpr absl::Duration kProbeTime = absl::Seconds(1);

service::ErrorSource ErrorSourceOf(const config::Config& config) {
  return cluster::IsRouter(config.cluster) ? service::ErrorSource::kRouter : service::ErrorSource::kServer;
}

rpc::GrpcReranker::Dependencies RerankerDependencies(Role* role, service::TenantQuestions* questions,
                                                     const service::Authenticator* authenticator, Metrics* metrics,
                                                     service::CallTracker* calls, const tracing::Tracer* tracer,
                                                     const config::Config& config) {
  return {.rerank = questions,
          .explain = questions,
          .authenticator = authenticator,
          .metrics = metrics,
          .calls = calls,
          .info =
              [role, source = ErrorSourceOf(config)](const service::Caller& caller) {
                v1::GetInfoResponse info = role->Info();
                service::HideFromTenant(caller, source, info);
                return info;
              },
          .stream_in_flight = config.grpc.stream_in_flight,
          .max_unread_answer_bytes = config.grpc.max_unread_answer_bytes,
          .client_key = config.client_key,
          .tracer = tracer};
}

// Returns the services for reflection, without those of every gRPC server.
std::vector<std::string> ServiceNames(const config::Config& config) {
  std::vector<std::string> names = {v1::Reranker::service_full_name(), v1::Documents::service_full_name()};
  if (config.admin.enabled) names.emplace_back(v1::Admin::service_full_name());
  return names;
}

const char* NameOf(config::HttpTls tls) {
  if (tls == config::HttpTls::kAll) return "all";
  return tls == config::HttpTls::kApi ? "api" : "off";
}

void GiveMemoryBack() {
#ifdef __GLIBC__
  if (mallinfo2().fordblks > kTrimAboveBytes) malloc_trim(0);
#endif
}

// If the limit on descriptors is too low for the configuration, lowers grpc.max_connections,
// http.max_concurrent_requests and http.max_idle_connections to what it allows, and logs that. Otherwise connections
// could use up the descriptors that loading a collection or the other port needs.
void FitDescriptors(config::Config& config) {
  const uint64_t limit = DescriptorLimit();
  const DescriptorPlan plan = PlanDescriptors(config, static_cast<uint64_t>(CountOpenDescriptors().value_or(0)), limit);
  if (plan.needed <= limit) return;
  config.grpc.max_connections = plan.max_connections;
  config.http.max_concurrent_requests = FitHttpConnections(config.http.max_concurrent_requests, limit);
  config.http.max_idle_connections = FitHttpConnections(config.http.max_idle_connections, limit);
  log::Write(spdlog::level::warn, "few_descriptors",
             {{"limit", limit},
              {"needed", plan.needed},
              {"max_connections", plan.max_connections},
              {"max_http_requests", config.http.max_concurrent_requests},
              {"max_idle_http_connections", config.http.max_idle_connections},
              {"hint", "raise the hard limit (ulimit -Hn, LimitNOFILE=) or lower grpc.max_connections"}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(config::Config config, std::vector<NumberedBackend> backends) {
  if (absl::Status status = config::Validate(config); !status.ok()) return status;
  service::BuildMessageDescriptors();
  FitDescriptors(config);
  auto metrics = std::make_unique<Metrics>();
  absl::StatusOr<std::unique_ptr<Role>> role = absl::UnknownError("");
  if (cluster::IsRouter(config.cluster)) {
    role = RouterRole::Create(config, metrics.get());
  } else {
    role = ServingRole::Create(config, std::move(backends), metrics.get());
  }
  if (!role.ok()) return role.status();
  std::unique_ptr<Server> server(new Server(std::move(config), std::move(metrics), *std::move(role)));
  if (absl::Status status = server->authenticator_.Load(); !status.ok()) return status;
  if (absl::Status status = server->certificates_.Load().status(); !status.ok()) return status;
  return server;
}

Server::Server(config::Config config, std::unique_ptr<Metrics> metrics, std::unique_ptr<Role> role)
    : config_(std::move(config)),
      metrics_(std::move(metrics)),
      tracer_(MakeTracer(config_, metrics_.get())),
      role_(std::move(role)),
      authenticator_({.search = config_.auth.tokens_file,
                      .write = config_.auth.write_tokens_file,
                      .admin = config_.auth.admin_tokens_file}),
      certificates_({.cert_file = config_.tls.cert_file,
                     .key_file = config_.tls.key_file,
                     .client_ca_file = config_.tls.client_ca_file}),
      worker_(std::make_unique<service::Worker>()),
      questions_(&role_->front(), &role_->front(), metrics_.get(), ErrorSourceOf(config_)),
      documents_(&role_->documents(), metrics_.get(), ErrorSourceOf(config_)),
      reranker_(RerankerDependencies(role_.get(), &questions_, &authenticator_, metrics_.get(), &calls_, tracer_.get(),
                                     config_)),
      document_calls_({.documents = &documents_,
                       .authenticator = &authenticator_,
                       .calls = &calls_,
                       .answers = reranker_.answers(),
                       .stream_in_flight = config_.grpc.stream_in_flight,
                       .client_key = config_.client_key,
                       .tracer = tracer_.get()}),
      admin_(&role_->collections(), &authenticator_, worker_.get(), metrics_.get(), &calls_, tracer_.get()),
      reflection_(ServiceNames(config_), &authenticator_, &calls_) {}

Server::~Server() {
  Shutdown(absl::ZeroDuration(), absl::ZeroDuration());
  worker_.reset();  // waits for a reload that RequestReload began; no call waits for it
}

absl::Status Server::OpenPorts() {
  std::vector<grpc::Service*> services = {&reranker_, &document_calls_};
  if (config_.admin.enabled) services.push_back(&admin_);
  if (config_.grpc.reflection) {
    for (grpc::Service* service : reflection_.services()) services.push_back(service);
  }
  auto grpc = GrpcPort::Open(config_, {.certificates = &certificates_,
                                       .authenticator = &authenticator_,
                                       .metrics = metrics_.get(),
                                       .services = std::move(services)});
  if (!grpc.ok()) return grpc.status();
  grpc_ = *std::move(grpc);
  if (!config_.http.address.empty()) {
    const auto address = config::ParseAddress(config_.http.address);
    if (!address.ok()) return address.status();
    const config::HttpTls tls = config::HttpTlsOf(config_);
    http_ = std::make_unique<http::HttpServer>(
        http::HttpOptions{
            .host = address->host,
            .port = address->port,
            .threads = config_.http.threads,
            .max_concurrent_requests = config_.http.max_concurrent_requests,
            .max_body_bytes = config_.http.max_body_bytes,
            .max_body_memory = config::HttpBodyMemoryOf(config_),
            .request_timeout = config_.http.request_timeout,
            .max_idle_connections_per_peer = config_.http.max_idle_connections_per_peer,
            .max_idle_connections = config_.http.max_idle_connections,
            .idle_timeout = config_.http.idle_timeout,
            .body_timeout = config_.http.body_timeout,
            .plain_text = tls == config::HttpTls::kAll ? http::PlainText::kNothing : http::PlainText::kProbes,
            .root_documents_are_texts = config_.http.root_documents == config::RootDocuments::kTexts,
            .allowed_hosts = config_.http.allowed_hosts,
            .client_header = config_.client_key,
            .console = config_.http.console,
            .console_questions = config_.http.console_questions},
        http::HttpDependencies{.rerank = &questions_,
                               .explain = &questions_,
                               .documents = &documents_,
                               .collections = &role_->collections(),
                               .error_source = ErrorSourceOf(config_),
                               .worker = config_.admin.enabled ? worker_.get() : nullptr,
                               .accepts_changes = [this] { return admin_.CheckAccepted(); },
                               .authenticator = &authenticator_,
                               .metrics = metrics_.get(),
                               .activity = &activity_,
                               .certificates = tls == config::HttpTls::kOff ? nullptr : &certificates_,
                               .readiness = [this] { return Readiness(); },
                               .losses = [this] { return Losses(); },
                               .tracer = tracer_.get()});
    auto port = http_->Start();
    if (!port.ok()) return port.status();
    http_port_ = *port;
  }
  // Prepare the port file only after the ports are bound: before that, the file may belong to another server that uses
  // the ports.
  if (!config_.server.port_file.empty()) {
    if (absl::Status status = PreparePortFile(config_.server.port_file); !status.ok()) return status;
  }
  log::Write(spdlog::level::info, "listening",
             {{"grpc_port", grpc_->port()},
              {"grpc_unix_socket", config_.grpc.unix_socket.empty() ? "off" : config_.grpc.unix_socket},
              {"http_port", http_port_ == 0 ? log::Value("off") : log::Value(http_port_)},
              {"encoder", config_.encoder.http.url.empty() ? "off" : config_.encoder.http.url},
              {"traces", config_.tracing.endpoint.empty() ? "off" : config_.tracing.endpoint},
              {"tls", certificates_.enabled() ? "on" : "off"},
              {"http_tls", NameOf(config::HttpTlsOf(config_))},
              {"authentication", authenticator_.enabled(service::Scope::kSearch) ? "on" : "off"},
              {"write_authentication", authenticator_.enabled(service::Scope::kWrite) ? "on" : "off"},
              {"admin_authentication", authenticator_.enabled(service::Scope::kAdmin) ? "on" : "off"}});
  return absl::OkStatus();
}

absl::Status Server::StartRole() {
  return role_->Start([this](const std::string& what) {
    MutexLock lock(&mutex_);
    if (stop_requested_) return absl::CancelledError("stopped while loading");
    loading_ = what;
    return absl::OkStatus();
  });
}

batching::Scheduler& Server::scheduler() { return static_cast<ServingRole&>(*role_).scheduler(); }

absl::Status Server::Start() {
  log::Write(spdlog::level::info, "starting", {{"version", kVersion}, {"commit", kCommit}});
  if (absl::Status status = OpenPorts(); !status.ok()) return status;
  if (absl::Status status = StartRole(); !status.ok()) return status;
  SetPhase(Phase::kServing);
  monitor_ = std::thread([this] { Monitor(); });
  {
    MutexLock lock(&mutex_);
    port_probe_ = std::make_unique<PortProbe>([this] { return grpc_->Probe(kProbeTime); }, kProbeInterval,
                                              [this](const absl::Status& status) { OnPortChange(status); });
  }
  if (!config_.server.port_file.empty()) {
    absl::Status status = WritePortFile(config_.server.port_file, grpc_->port(), http_port_);
    if (!status.ok()) return status;
    port_file_written_ = true;
  }
  log::Write(spdlog::level::info, "ready", {});
  return absl::OkStatus();
}

void Server::SetPhase(Phase phase) {
  {
    MutexLock lock(&mutex_);
    if (phase_ == phase) return;
    phase_ = phase;
    if (phase == Phase::kServing) has_served_ = true;
  }
  if (phase == Phase::kServing) {
    role_->SetState(service::ServingState::kServing);
    admin_.AcceptChanges();
  }
  metrics_->SetReady(phase == Phase::kServing);
  if (grpc_ != nullptr) grpc_->SetHealth(phase == Phase::kServing);
}

absl::Status Server::Readiness() const {
  absl::Status role = role_->Readiness();
  MutexLock lock(&mutex_);
  if (!health_.ok()) return health_;
  switch (phase_) {
    case Phase::kServing:
      if (!role.ok()) return role;
      return port_probe_ == nullptr ? absl::OkStatus() : port_probe_->status();
    case Phase::kLoading:
      return absl::UnavailableError(absl::StrCat("loading ", loading_));
    case Phase::kDraining:
    case Phase::kStopped:
      return absl::UnavailableError("draining");
  }
  return absl::UnavailableError("unknown");
}

void Server::OnPortChange(const absl::Status& status) {
  if (status.ok()) {
    log::Write(spdlog::level::info, "port_answers", {});
  } else {
    log::Write(spdlog::level::err, "port_does_not_answer", {{"error", std::string(status.message())}});
  }
  MutexLock lock(&mutex_);
  if (phase_ == Phase::kServing && health_.ok()) metrics_->SetReady(status.ok());
}

bool Server::has_served() const {
  MutexLock lock(&mutex_);
  return has_served_;
}

void Server::CheckHealth() {
  const absl::Status health = role_->CheckHealth();
  if (health.ok()) return;
  {
    MutexLock lock(&mutex_);
    if (!health_.ok()) return;
    health_ = health;
  }
  log::Write(spdlog::level::err, "stopping", {{"reason", std::string(health.message())}});
  metrics_->SetReady(false);
  grpc_->SetHealth(false);
  changed_.NotifyAll();
}

void Server::Monitor() {
  NameThisThread("monitor");
  MutexLock lock(&mutex_);
  for (int tick = 0; !monitor_stop_; ++tick) {
    lock.Unlock();
    // If memory runs out, the next tick does the rest.
    Guarded([&] {
      CheckHealth();
      if (tick % kTicksPerTrim == 0) GiveMemoryBack();
      reflection_.EndIdleStreams();
      if (tick % kTicksPerPoll == 0) activity_.Add(role_->Observe(), MonotonicNow());
      return absl::OkStatus();
    }).IgnoreError();
    lock.Lock();
    const auto next_check = std::chrono::steady_clock::now() + kHealthInterval;
    while (!monitor_stop_ && changed_.WaitUntil(lock, next_check)) {
    }
  }
}

void Server::RequestStop(const std::string& reason) {
  {
    MutexLock lock(&mutex_);
    if (stop_requested_) return;
    stop_requested_ = true;
  }
  log::Write(spdlog::level::info, "stopping", {{"reason", reason}});
  changed_.NotifyAll();
}

void Server::RequestReload() {
  const std::array<absl::Status, service::kNumScopes> outcomes = authenticator_.LoadEach();
  for (const service::Scope scope : service::kScopes) {
    if (!authenticator_.has_file(scope)) continue;
    const char* const what = scope == service::Scope::kAdmin   ? "admin_tokens"
                             : scope == service::Scope::kWrite ? "write_tokens"
                                                               : "tokens";
    if (const absl::Status& status = outcomes[static_cast<size_t>(scope)]; !status.ok()) {
      log::Write(spdlog::level::err, absl::StrCat(what, "_not_reloaded"), {{"error", status.ToString()}});
    } else {
      log::Write(spdlog::level::info, absl::StrCat(what, "_reloaded"),
                 {{"tokens", authenticator_.num_tokens(scope)}, {"tenants", authenticator_.num_tenant_tokens(scope)}});
    }
  }
  if (const auto changed = certificates_.Load(); !changed.ok()) {
    log::Write(spdlog::level::err, "certificates_not_reloaded", {{"error", changed.status().ToString()}});
  } else if (*changed) {
    log::Write(spdlog::level::info, "certificates_reloaded", {});
  }
  if (!has_served()) return;  // the first loads are not done yet
  // The worker runs tasks of one key one after another, and tasks of different keys at the same time. No collection has
  // the name "", so loads that clients ask for can run beside this task.
  worker_->Post("", service::Worker::Length::kLong, nullptr, [this](const absl::Status& turn) {
    if (turn.ok()) role_->ReloadAll();
  });
}

}  // namespace maxsim
