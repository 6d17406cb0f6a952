#include "server/server.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "base/open_descriptors.h"
#include "base/thread_name.h"
#include "base/units.h"
#include "kernels/cpu/machine.h"
#include "maxsim_version.h"
#include "server/config/values.h"
#include "server/descriptors.h"
#include "server/live/live_collection.h"
#include "server/observability/logging.h"
#include "server/service/activity.h"
#include "server/startup.h"
#include "server/trace_export.h"

namespace maxsim {
namespace {

// A lost device is noticed by the next request anyway; this is for servers that get none.
constexpr std::chrono::milliseconds kHealthInterval(250);
constexpr int kTicksPerPoll = 20;  // GPU state, memory gauges and activity every 5 s, below the usual scrape interval
static_assert(absl::FromChrono(kTicksPerPoll * kHealthInterval) == Activity::kInterval);

constexpr int kTicksPerTrim = 240;  // a minute

// The allocator keeps what floods of calls have freed, until something asks it to give that back.
constexpr size_t kTrimAboveBytes = size_t{256} << 20;

// Calls that come while gRPC closes its port are cut off, so it stays open, refusing, until clients have noticed: until
// this long no call was in progress, but no longer than kMaxLinger.
constexpr absl::Duration kQuietTime = absl::Milliseconds(250);
constexpr absl::Duration kMaxLinger = absl::Seconds(2);
// What is left then is cut off: watches of the health service, calls beyond their grace.
constexpr absl::Duration kCloseTime = absl::Milliseconds(100);

// How often the gRPC port is tried, and what it has for an answer. Two failures in a row take readiness away.
constexpr absl::Duration kProbeInterval = absl::Seconds(1);
constexpr absl::Duration kProbeTime = absl::Seconds(1);

// Time for the answers of a failed device's requests to leave.
constexpr absl::Duration kDeviceLostGrace = absl::Seconds(2);

rpc::GrpcReranker::Dependencies RerankerDependencies(service::RerankService* rerank,
                                                     const service::Authenticator* authenticator,
                                                     const store::DeviceSet* devices,
                                                     const store::CollectionStore* store, Metrics* metrics,
                                                     service::CallTracker* calls, const tracing::Tracer* tracer,
                                                     const config::Config& config) {
  return {.rerank = rerank,
          .authenticator = authenticator,
          .devices = devices,
          .store = store,
          .metrics = metrics,
          .calls = calls,
          .max_queue_work = config.batching.max_queue_work,
          .stream_in_flight = config.grpc.stream_in_flight,
          .max_unread_answer_bytes = config.grpc.max_unread_answer_bytes,
          .client_key = config.client_key,
          .tracer = tracer};
}

// What reflection lists beside the services that every server has.
std::vector<std::string> ServiceNames(const config::Config& config) {
  std::vector<std::string> names = {v1::Reranker::service_full_name(), v1::Documents::service_full_name()};
  if (config.admin.enabled) names.emplace_back(v1::Admin::service_full_name());
  return names;
}

const char* NameOf(config::HttpTls tls) {
  if (tls == config::HttpTls::kAll) return "all";
  return tls == config::HttpTls::kApi ? "api" : "off";
}

void LogBackend(const NumberedBackend& numbered, const engine::Engine& engine) {
  const BackendInfo& info = numbered.backend->info();
  log::Write(spdlog::level::info, "backend",
             {{"kind", info.name},
              {"number", numbered.number},
              {"device", info.device},
              {"isa", info.isa},
              {"parallelism", info.parallelism},
              {"memory", WriteBytes(info.memory_bytes)},
              {"lanes", engine.num_lanes()}});
  if (!info.link.empty()) {
    log::Write(spdlog::level::info, "link", {{"number", numbered.number}, {"measured", info.link}});
  }
}

std::unique_ptr<store::DeviceSet> MakeDeviceSet(const config::Config& config,
                                                const std::vector<NumberedBackend>& backends) {
  std::vector<store::DeviceSet::Member> members;
  members.reserve(backends.size());
  for (const NumberedBackend& one : backends) members.push_back({one.backend.get(), one.number});
  const auto by_number = backends.size() == 1 ? store::OnDeviceLoss::kExit : store::OnDeviceLoss::kDegrade;
  return std::make_unique<store::DeviceSet>(std::move(members), config.on_device_loss.value_or(by_number));
}

void GiveMemoryBack() {
#ifdef __GLIBC__
  if (mallinfo2().fordblks > kTrimAboveBytes) malloc_trim(0);
#endif
}

// Lowers grpc.max_connections, http.max_concurrent_requests and http.max_idle_connections to what the limit of
// descriptors allows, and says so: connections that the process cannot have must not keep it from loading a collection,
// nor those of one port keep it from accepting on the other.
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
  if (backends.empty()) {
    auto chosen = ChooseBackends(config);
    if (!chosen.ok()) return chosen.status();
    backends = *std::move(chosen);
  }
  // Lanes cut batches into calls, so these follow from what a batch and a request may hold.
  config.engine.executor.max_queries =
      static_cast<int32_t>(std::max<int64_t>(config.batching.max_batch_queries, config.limits.max_queries_per_request));
  config.store.max_dim = config.engine.executor.max_dim;
  config.store.free_host_bytes = cpu::AvailableMemoryBytes;
  config.limits.max_staged_bytes = config.engine.executor.max_staged_bytes;
  config.limits.max_dim = config.engine.executor.max_dim;
  FitDescriptors(config);
  std::unique_ptr<store::DeviceSet> devices = MakeDeviceSet(config, backends);
  auto engine = engine::Engine::Create(devices.get(), config.engine);
  if (!engine.ok()) return engine.status();
  std::unique_ptr<Server> server(
      new Server(std::move(config), std::move(backends), std::move(devices), *std::move(engine)));
  if (absl::Status status = server->authenticator_.Load(); !status.ok()) return status;
  if (absl::Status status = server->certificates_.Load().status(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<encoder::Encoder>> encoder = MakeEncoder(server->config_, &server->metrics_);
  if (!encoder.ok()) return encoder.status();
  server->texts_.SetEncoder(*std::move(encoder), server->config_.batching.max_queue_bytes);
  for (const NumberedBackend& one : server->backends_) LogBackend(one, *server->engine_);
  return server;
}

Server::Server(config::Config config, std::vector<NumberedBackend> backends, std::unique_ptr<store::DeviceSet> devices,
               std::unique_ptr<engine::Engine> engine)
    : config_(std::move(config)),
      tracer_(MakeTracer(config_, &metrics_)),
      backends_(std::move(backends)),
      devices_(std::move(devices)),
      store_(std::make_unique<store::CollectionStore>(devices_.get(), config_.store)),
      engine_(std::move(engine)),
      scheduler_(std::make_unique<batching::Scheduler>(engine_.get(), &metrics_, config_.batching)),
      authenticator_({.search = config_.auth.tokens_file,
                      .write = config_.auth.write_tokens_file,
                      .admin = config_.auth.admin_tokens_file}),
      certificates_({.cert_file = config_.tls.cert_file,
                     .key_file = config_.tls.key_file,
                     .client_ca_file = config_.tls.client_ca_file}),
      collections_(store_.get(), devices_.get(), &metrics_, config_.allowed_roots),
      rerank_(store_.get(), &texts_, scheduler_.get(), &metrics_, config_.limits, config_.log.slow_request),
      explain_(store_.get(), &texts_, &metrics_, config_.limits),
      documents_(store_.get(), &texts_, &metrics_, config_.limits),
      worker_(std::make_unique<rpc::Worker>()),
      reranker_(RerankerDependencies(&rerank_, &authenticator_, devices_.get(), store_.get(), &metrics_, &calls_,
                                     tracer_.get(), config_)),
      document_calls_({.documents = &documents_,
                       .authenticator = &authenticator_,
                       .calls = &calls_,
                       .answers = reranker_.answers(),
                       .stream_in_flight = config_.grpc.stream_in_flight,
                       .client_key = config_.client_key,
                       .tracer = tracer_.get()}),
      admin_(&collections_, &authenticator_, worker_.get(), &metrics_, &calls_, tracer_.get()),
      reflection_(ServiceNames(config_), &authenticator_, &calls_),
      num_alive_(devices_->size()) {
  UpdateDeviceMetrics();
  metrics_.live().SetSegmentLimit(config_.live.max_segment_bytes);
  store_->SetOpenLive([this](const store::LiveRequest& request) {
    return live::OpenLiveCollection(request, LiveOptionsOf(config_), &metrics_);
  });
  if (devices_->backend(0).info().name == "cuda") nvml_ = Nvml::Open();
}

Server::~Server() {
  Shutdown(absl::ZeroDuration(), absl::ZeroDuration());
  worker_.reset();  // waits for a load of RequestReload, which no call waited for
}

absl::Status Server::OpenPorts() {
  std::vector<grpc::Service*> services = {&reranker_, &document_calls_};
  if (config_.admin.enabled) services.push_back(&admin_);
  if (config_.grpc.reflection) {
    for (grpc::Service* service : reflection_.services()) services.push_back(service);
  }
  auto grpc = GrpcPort::Open(config_, {.certificates = &certificates_,
                                       .authenticator = &authenticator_,
                                       .metrics = &metrics_,
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
            .request_timeout = config_.http.request_timeout,
            .max_idle_connections_per_peer = config_.http.max_idle_connections_per_peer,
            .max_idle_connections = config_.http.max_idle_connections,
            .idle_timeout = config_.http.idle_timeout,
            .body_timeout = config_.http.body_timeout,
            .plain_text = tls == config::HttpTls::kAll ? http::PlainText::kNothing : http::PlainText::kProbes,
            .client_header = config_.client_key,
            .console = config_.http.console,
            .console_questions = config_.http.console_questions},
        http::HttpDependencies{.rerank = &rerank_,
                               .explain = &explain_,
                               .documents = &documents_,
                               .collections = &collections_,
                               .authenticator = &authenticator_,
                               .metrics = &metrics_,
                               .activity = &activity_,
                               .certificates = tls == config::HttpTls::kOff ? nullptr : &certificates_,
                               .readiness = [this] { return Readiness(); },
                               .losses = [this] { return Losses(); },
                               .tracer = tracer_.get()});
    auto port = http_->Start();
    if (!port.ok()) return port.status();
    http_port_ = *port;
  }
  // Not before the ports are ours: the file may be that of the server that has them.
  if (!config_.server.port_file.empty()) {
    if (absl::Status status = PreparePortFile(config_.server.port_file); !status.ok()) return status;
  }
  log::Write(spdlog::level::info, "listening",
             {{"grpc_port", grpc_->port()},
              {"grpc_unix_socket", config_.grpc.unix_socket.empty() ? "off" : config_.grpc.unix_socket},
              {"http_port", http_port_ == 0 ? std::string("off") : absl::StrCat(http_port_)},
              {"encoder", config_.encoder.http.url.empty() ? "off" : config_.encoder.http.url},
              {"traces", config_.tracing.endpoint.empty() ? "off" : config_.tracing.endpoint},
              {"tls", certificates_.enabled() ? "on" : "off"},
              {"http_tls", NameOf(config::HttpTlsOf(config_))},
              {"authentication", authenticator_.enabled(service::Scope::kSearch) ? "on" : "off"},
              {"write_authentication", authenticator_.enabled(service::Scope::kWrite) ? "on" : "off"},
              {"admin_authentication", authenticator_.enabled(service::Scope::kAdmin) ? "on" : "off"}});
  return absl::OkStatus();
}

absl::Status Server::LoadCollections() {
  for (const config::CollectionConfig& collection : config_.collections) {
    {
      MutexLock lock(&mutex_);
      if (stop_requested_) return absl::CancelledError("stopped while loading");
      loading_ = collection.name;
    }
    if (auto loaded = collections_.Load(collection.name, collection.path, collection.residency, collection.replication,
                                        collection.live);
        !loaded.ok()) {
      return absl::Status(loaded.status().code(),
                          absl::StrCat("collection ", collection.name, ": ", loaded.status().message()));
    }
    auto found = store_->Find(collection.name);
    absl::Status warmed =
        found.ok() ? WarmUp(*found, *scheduler_, config_.engine.executor.max_query_tokens) : found.status();
    if (!warmed.ok()) {
      return absl::Status(warmed.code(),
                          absl::StrCat("collection ", collection.name, ": the first query failed: ", warmed.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status Server::Start() {
  log::Write(spdlog::level::info, "starting", {{"version", kVersion}, {"commit", kCommit}});
  if (absl::Status status = OpenPorts(); !status.ok()) return status;
  if (absl::Status status = LoadCollections(); !status.ok()) return status;
  if (config_.collections.empty()) {
    log::Write(spdlog::level::warn, "no_collection_configured",
               {{"hint", config_.allowed_roots.empty() ? "--collection NAME=PATH" : "maxsimctl load"}});
  }
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
    rerank_.SetState(service::RerankService::State::kServing);
    documents_.SetState(service::RerankService::State::kServing);
    admin_.AcceptChanges();
  }
  metrics_.SetReady(phase == Phase::kServing);
  if (grpc_ != nullptr) grpc_->SetHealth(phase == Phase::kServing);
}

absl::Status Server::Readiness() const {
  MutexLock lock(&mutex_);
  if (!device_.ok()) return device_;
  switch (phase_) {
    case Phase::kServing:
      return port_probe_ == nullptr ? absl::OkStatus() : port_probe_->status();
    case Phase::kLoading:
      return absl::UnavailableError(absl::StrCat("loading collection ", loading_));
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
  if (phase_ == Phase::kServing && device_.ok()) metrics_.SetReady(status.ok());
}

bool Server::has_served() const {
  MutexLock lock(&mutex_);
  return has_served_;
}

std::string Server::Losses() const {
  std::string text;
  for (size_t device = 0; device < devices_->size(); ++device) {
    if (const absl::Status lost = devices_->StatusOf(device); !lost.ok()) {
      absl::StrAppend(&text, "lost: ", lost.message(), "\n");
    }
  }
  if (text.empty()) return text;
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.collection == nullptr) continue;
    const uint64_t count = status.collection->num_unavailable(*devices_);
    if (count == 0) continue;
    absl::StrAppend(&text, "collection ", status.name, ": ", count, " of ", status.collection->num_documents(),
                    " documents cannot be scored\n");
  }
  return text;
}

void Server::UpdateDeviceMetrics() {
  for (size_t device = 0; device < devices_->size(); ++device) {
    metrics_.SetDevice(devices_->number(device), devices_->alive(device), engine_->lanes_busy(device));
  }
}

void Server::CheckDevices() {
  devices_->Poll();
  const absl::Status health = devices_->Health();
  UpdateDeviceMetrics();
  // A device was lost since the last check, so that collections may lack documents.
  if (const size_t num_alive = devices_->num_alive(); num_alive != std::exchange(num_alive_, num_alive)) {
    collections_.UpdateMetrics();
  }
  if (health.ok()) return;
  {
    MutexLock lock(&mutex_);
    if (!device_.ok()) return;
    device_ = absl::UnavailableError(absl::StrCat("the device is lost: ", health.message()));
  }
  log::Write(spdlog::level::err, "stopping", {{"reason", absl::StrCat("the device is lost: ", health.message())}});
  metrics_.SetReady(false);
  grpc_->SetHealth(false);
  changed_.NotifyAll();
}

void Server::Monitor() {
  NameThisThread("monitor");
  MutexLock lock(&mutex_);
  for (int tick = 0; !monitor_stop_; ++tick) {
    lock.Unlock();
    CheckDevices();
    if (tick % kTicksPerTrim == 0) GiveMemoryBack();
    reflection_.EndIdleStreams();
    if (tick % kTicksPerPoll == 0) {
      collections_.UpdateMetrics();
      activity_.Add(service::ReadActivity(metrics_, *devices_, *store_, config_.store.memory_budget_bytes),
                    MonotonicNow());
      if (nvml_ != nullptr) {
        for (const GpuState& gpu : nvml_->Read()) {
          metrics_.SetGpu(gpu.device, gpu.utilization_ratio, gpu.temperature_celsius, gpu.power_watts);
        }
      }
    }
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
  for (const service::Scope scope : service::kScopes) {
    if (!authenticator_.has_file(scope)) continue;
    const char* const what = scope == service::Scope::kAdmin   ? "admin_tokens"
                             : scope == service::Scope::kWrite ? "write_tokens"
                                                               : "tokens";
    if (absl::Status status = authenticator_.Load(scope); !status.ok()) {
      log::Write(spdlog::level::err, absl::StrCat(what, "_not_reloaded"), {{"error", status.ToString()}});
    } else {
      log::Write(spdlog::level::info, absl::StrCat(what, "_reloaded"), {{"tokens", authenticator_.num_tokens(scope)}});
    }
  }
  if (const auto changed = certificates_.Load(); !changed.ok()) {
    log::Write(spdlog::level::err, "certificates_not_reloaded", {{"error", changed.status().ToString()}});
  } else if (*changed) {
    log::Write(spdlog::level::info, "certificates_reloaded", {});
  }
  if (!has_served()) return;  // the first loads are not done yet
  // The key is no collection's name: loads that clients ask for go on beside it.
  worker_->Post("", rpc::Worker::Length::kLong, nullptr, [this](const absl::Status& turn) {
    if (turn.ok()) collections_.ReloadAll().IgnoreError();  // each outcome is logged
  });
}

int Server::Run() {
  bool lost = false;
  {
    MutexLock lock(&mutex_);
    while (!stop_requested_ && device_.ok()) changed_.Wait(lock);
    lost = !device_.ok();
  }
  Shutdown(lost ? absl::ZeroDuration() : config_.server.shutdown_delay,
           lost ? std::min(kDeviceLostGrace, config_.server.shutdown_grace) : config_.server.shutdown_grace);
  MutexLock lock(&mutex_);
  return device_.ok() ? 0 : kExitDeviceLost;
}

void Server::Shutdown(absl::Duration delay, absl::Duration grace) {
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kStopped) return;
  }
  // 1. The server is not ready, and still serves. A device that is lost meanwhile ends the wait.
  SetPhase(Phase::kDraining);
  if (delay > absl::ZeroDuration()) {
    log::Write(spdlog::level::info, "draining", {{"seconds", absl::ToDoubleSeconds(delay)}});
    MutexLock lock(&mutex_);
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay);
    while (device_.ok() && changed_.WaitUntil(lock, end)) {
    }
  }
  // 2. Whatever was accepted is answered; what comes is refused.
  RemoveOwnPortFile();
  const absl::Time deadline = MonotonicNow() + grace;
  calls_.BeginDrain();
  rerank_.SetState(service::RerankService::State::kDraining);
  documents_.SetState(service::RerankService::State::kDraining);
  reranker_.DrainStreams();
  document_calls_.DrainStreams();
  reflection_.Drain();
  store_->StopLoads();
  worker_->Stop();
  texts_.Stop(deadline);
  const int64_t failed = scheduler_->Shutdown(deadline);
  store_->StopLive();  // writes that were accepted are acknowledged
  // 3. and 4. Refusals go on until no new call has come for a moment; then the gRPC port closes.
  TakePortProbe().reset();  // outside of the lock, which it takes
  if (grpc_ != nullptr) CloseGrpcPort(deadline, grace);
  // 5. HTTP goes last: probes and metrics are answered until everything else is done.
  if (http_ != nullptr) http_->Stop(std::max(deadline - MonotonicNow(), std::min(kMaxLinger, grace)));
  // 6. Spans have the rest of the grace, and as long as a port where that is used up.
  tracer_->Shutdown(std::max(deadline, MonotonicNow() + std::min(kMaxLinger, grace)));
  {
    MutexLock lock(&mutex_);
    monitor_stop_ = true;
  }
  changed_.NotifyAll();
  if (monitor_.joinable()) monitor_.join();
  SetPhase(Phase::kStopped);
  // A start that failed has said so.
  if (!has_served()) return;
  log::Write(spdlog::level::info, "stopped", {{"unanswered_requests", failed}});
}

std::unique_ptr<PortProbe> Server::TakePortProbe() {
  MutexLock lock(&mutex_);
  return std::move(port_probe_);
}

void Server::RemoveOwnPortFile() {
  if (!std::exchange(port_file_written_, false)) return;
  if (!NamesThisProcess(config_.server.port_file)) return;  // another server's by now
  if (absl::Status status = RemovePortFile(config_.server.port_file); !status.ok()) {
    log::Write(spdlog::level::warn, "port_file_left", {{"error", status.ToString()}});
  }
}

void Server::CloseGrpcPort(absl::Time deadline, absl::Duration grace) {
  // The scheduler has answered; what is left of the grace is for the answers to leave, to clients that read slowly.
  calls_.WaitForEarlierCalls(deadline - MonotonicNow());
  calls_.WaitForQuiet(kQuietTime, std::min(kMaxLinger, grace));
  grpc_->Shutdown(kCloseTime);
}

}  // namespace maxsim
