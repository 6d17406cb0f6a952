#include "server/serving_role.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backup/newest_backup.h"
#include "backup/store_url.h"
#include "base/text.h"
#include "kernels/cpu/machine.h"
#include "server/cluster/groups/groups_watcher.h"
#include "server/cluster/snapshot_client.h"
#include "server/live/live_collection.h"
#include "server/live/stream/nats_keys.h"
#include "server/observability/logging.h"
#include "server/service/call/activity.h"
#include "server/service/request/info.h"

namespace maxsim {
namespace {

void LogBackend(const NumberedBackend& numbered, const engine::Engine& engine) {
  const BackendInfo& info = numbered.backend->info();
  log::Write(spdlog::level::info, "backend",
             {{"kind", info.name},
              {"number", numbered.number},
              {"device", info.device},
              {"isa", info.isa},
              {"parallelism", info.parallelism},
              {"memory_bytes", info.memory_bytes},
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
  return std::make_unique<store::DeviceSet>(std::move(members), config.on_device_loss.value_or(by_number),
                                            config.engine.num_lanes);
}

// Sets the options that follow from other keys. One call of an executor may have as many queries as the largest batch
// or the largest request, whichever is larger.
config::Config Derived(config::Config config) {
  config.engine.executor.max_queries =
      static_cast<int32_t>(std::max<int64_t>(config.batching.max_batch_queries, config.limits.max_queries_per_request));
  config.store.max_dim = config.engine.executor.max_dim;
  config.store.free_host_bytes = cpu::AvailableMemoryBytes;
  config.limits.max_staged_bytes = config.engine.executor.max_staged_bytes;
  config.limits.max_dim = config.engine.executor.max_dim;
  return config;
}

// Returns the network addresses of the named servers. Leaves out a name that has no address, for example because no
// server of that group runs.
std::vector<std::string> ResolvePeers(const std::vector<std::string>& peers) {
  std::vector<std::string> addresses;
  for (const std::string& peer : peers) {
    const absl::StatusOr<std::vector<std::string>> resolved = cluster::ResolveTarget(peer);
    if (!resolved.ok()) continue;
    for (const std::string& address : *resolved) {
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
    }
  }
  return addresses;
}

// Returns the options to call `address`. Reads the token and certificates, which may have changed.
absl::StatusOr<client::ClientOptions> OptionsTo(const config::Config& config, const std::string& address) {
  absl::StatusOr<client::ClientOptions> options = OptionsToServers(config);
  if (options.ok()) options->target = address;
  return options;
}

absl::StatusOr<std::unique_ptr<backup::ObjectStore>> OpenBackups(const std::string& url, const StopSignal* stop) {
  absl::StatusOr<std::unique_ptr<backup::ObjectStore>> store = backup::OpenStore(
      url, [](const char* name) -> const char* { return std::getenv(name); }, stop);
  if (!store.ok()) return Prefix("cluster.backups: ", store.status());
  return store;
}

// Returns the URL of the newest backup of a collection. `url` is the folder of all backups, which has one folder per
// collection.
absl::StatusOr<std::string> FindBackup(const std::string& url, const std::string& collection, const StopSignal* stop) {
  const std::string of_collection = absl::StrCat(url, "/", collection);
  const absl::StatusOr<std::unique_ptr<backup::ObjectStore>> store = OpenBackups(of_collection, stop);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::string> name = backup::FindNewestBackup(**store);
  if (!name.ok()) return name.status();
  return absl::StrCat(of_collection, "/", *name);
}

absl::StatusOr<service::FetchedSnapshots> FetchSnapshotsOfBackup(const std::string& url,
                                                                 const service::FetchRequest& request,
                                                                 const StopSignal* stop) {
  const absl::StatusOr<std::unique_ptr<backup::ObjectStore>> store = OpenBackups(url, stop);
  if (!store.ok()) return store.status();
  absl::StatusOr<backup::FetchedBackup> fetched =
      backup::FetchBackup(**store, request.collection, request.slots, request.folder, stop);
  if (!fetched.ok()) return fetched.status();
  return service::FetchedSnapshots{
      .folders = std::move(fetched->folders), .num_bytes = fetched->num_bytes, .last_sequence = fetched->complete_at};
}

std::unique_ptr<live::Layouts> MakeLayouts(const live::LiveOptions& options) {
  if (options.log != live::LogKind::kNats) return nullptr;
  return std::make_unique<live::Layouts>(live::MakeNatsKeys(options.nats));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServingRole>> ServingRole::Create(const config::Config& config,
                                                                 std::vector<NumberedBackend> backends,
                                                                 Metrics* metrics) {
  if (backends.empty()) {
    auto chosen = ChooseBackends(config);
    if (!chosen.ok()) return chosen.status();
    backends = *std::move(chosen);
  }
  const config::Config derived = Derived(config);
  std::unique_ptr<store::DeviceSet> devices = MakeDeviceSet(derived, backends);
  auto engine = engine::Engine::Create(devices.get(), derived.engine);
  if (!engine.ok()) return engine.status();
  std::unique_ptr<ServingRole> role(
      new ServingRole(derived, std::move(backends), std::move(devices), *std::move(engine), metrics));
  absl::StatusOr<std::unique_ptr<encoder::Encoder>> encoder = MakeEncoder(role->config_, metrics);
  if (!encoder.ok()) return encoder.status();
  if (absl::Status status = role->EnableBootstrap(); !status.ok()) return status;
  role->texts_.SetEncoder(*std::move(encoder), role->config_.batching.max_queue_bytes);
  for (const NumberedBackend& one : role->backends_) LogBackend(one, *role->engine_);
  return role;
}

ServingRole::ServingRole(const config::Config& config, std::vector<NumberedBackend> backends,
                         std::unique_ptr<store::DeviceSet> devices, std::unique_ptr<engine::Engine> engine,
                         Metrics* metrics)
    : config_(config),
      metrics_(metrics),
      backends_(std::move(backends)),
      devices_(std::move(devices)),
      live_threads_(config_.live.max_collections),
      layouts_(MakeLayouts(config_.live)),
      store_(devices_.get(), config_.store),
      engine_(std::move(engine)),
      scheduler_(engine_.get(), metrics_, config_.batching),
      collections_(&store_, devices_.get(), metrics_, config_.allowed_roots),
      scorer_(&store_, &scheduler_, metrics_, config_.limits),
      front_(&scorer_, &texts_, metrics_, config_.limits, config_.log.slow_request),
      documents_(&store_, &texts_, metrics_, config_.limits),
      num_alive_(devices_->size()) {
  UpdateDeviceMetrics();
  if (layouts_ != nullptr) ShareCollections();
  metrics_->live().SetSegmentLimit(config_.live.max_segment_bytes);
  store_.SetOpenLive([this](const store::LiveRequest& request) {
    return live::OpenLiveCollection(request, LiveOptionsOf(config_), &live_threads_, metrics_, /*open_stream=*/nullptr,
                                    layouts_.get());
  });
  if (devices_->backend(0).info().name == "cuda") nvml_ = Nvml::Open();
}

void ServingRole::ShareCollections() {
  shared_collections_ = std::make_unique<live::SharedCollections>(
      layouts_->keys(),
      live::SharedCollections::Options{.timeout = config_.live.nats.timeout, .group = config_.live.group});
  collections_.SetRegistry(shared_collections_.get());
  if (!config_.live.create_from_cluster) return;
  learner_ = std::make_unique<live::CollectionLearner>(
      shared_collections_.get(), layouts_.get(),
      live::CollectionLearner::Options{
          .own = {.group = config_.live.group, .partition = config_.store.partition},
          .on_removed = [this](const std::string& name) { collections_.StopAwaiting(name); }},
      [this](const store::SharedSettings& settings, const collection::SlotRange& slots) {
        return collections_.CreateShared(settings, slots);
      });
}

absl::Status ServingRole::EnableBootstrap() {
  // Read once, so that the server does not start with a wrong token file.
  if (absl::Status status = OptionsToServers(config_).status(); !status.ok()) return status;
  if (config_.live.log != live::LogKind::kNats) return absl::OkStatus();
  service::BootstrapOptions bootstrap{
      .open = [this](const std::string& address, const std::string& collection, const tracing::SpanParent& span,
                     const StopSignal* stop) -> absl::StatusOr<std::unique_ptr<service::IncomingSnapshot>> {
        absl::StatusOr<client::ClientOptions> options = OptionsTo(config_, address);
        if (!options.ok()) return options.status();
        return cluster::ReadSnapshotOf(*std::move(options), collection, span, stop);
      },
      .info = [this](const std::string& address) -> absl::StatusOr<v1::GetInfoResponse> {
        absl::StatusOr<client::ClientOptions> options = OptionsTo(config_, address);
        if (!options.ok()) return options.status();
        return cluster::GetInfoOf(*std::move(options));
      }};
  if (!config_.cluster.backups.empty()) {
    // So that the server does not start with wrong settings of the store.
    if (absl::Status status = OpenBackups(config_.cluster.backups, nullptr).status(); !status.ok()) return status;
    bootstrap.find_backup = [this](const std::string& collection, const StopSignal* stop) {
      return FindBackup(config_.cluster.backups, collection, stop);
    };
    bootstrap.fetch_backup = FetchSnapshotsOfBackup;
  }
  if (!config_.cluster.peers.empty()) {
    bootstrap.peers = [this] { return ResolvePeers(config_.cluster.peers); };
  }
  collections_.SetBootstrap(std::move(bootstrap));
  return absl::OkStatus();
}

v1::GetInfoResponse ServingRole::Info() const {
  // Read the state before the list of collections. In the other order, a collection that is loaded in between could be
  // missing although `loading` is false.
  const bool loading = front_.state() == service::ServingState::kLoading;
  v1::GetInfoResponse info =
      service::BuildInfo(*devices_, store_, config_.limits, config_.batching.max_queue_work, texts_.info());
  info.set_loading(loading);
  info.set_zone(config_.cluster.zone);
  return info;
}

absl::Status ServingRole::Start(const Begin& begin) {
  collections_.RemoveLeftovers();
  for (const config::CollectionConfig& collection : config_.collections) {
    const std::string what = absl::StrCat("collection ", collection.name);
    if (absl::Status status = begin(what); !status.ok()) return status;
    if (auto loaded = collections_.Load(collection.name, collection.path, collection.residency, collection.replication,
                                        collection.live);
        !loaded.ok()) {
      return absl::Status(loaded.status().code(), absl::StrCat(what, ": ", loaded.status().message()));
    }
    auto found = store_.Find(collection.name);
    absl::Status warmed =
        found.ok() ? WarmUp(*found, scheduler_, config_.engine.executor.max_query_tokens) : found.status();
    if (!warmed.ok()) {
      return absl::Status(warmed.code(), absl::StrCat(what, ": the first query failed: ", warmed.message()));
    }
  }
  if (config_.live.restore_created) {
    if (absl::Status status = begin("created collections"); !status.ok()) return status;
    collections_.LoadCreated();
  }
  if (learner_ != nullptr) {
    if (absl::Status status = learner_->Start(); !status.ok()) return status;
  } else if (config_.collections.empty() && store_.List().empty()) {
    log::Write(spdlog::level::warn, "no_collection_configured",
               {{"hint", config_.allowed_roots.empty() ? "--collection NAME=PATH" : "maxsimctl load"}});
  }
  return absl::OkStatus();
}

void ServingRole::UpdateDeviceMetrics() {
  for (size_t device = 0; device < devices_->size(); ++device) {
    metrics_->SetDevice(devices_->number(device), devices_->alive(device), engine_->lanes_busy(device));
  }
}

absl::Status ServingRole::CheckHealth() {
  devices_->Poll();
  absl::Status health = devices_->Health();
  UpdateDeviceMetrics();
  // If a device was lost since the last check, collections may have lost documents.
  if (const size_t num_alive = devices_->num_alive(); num_alive != std::exchange(num_alive_, num_alive)) {
    collections_.UpdateMetrics();
  }
  if (health.ok()) return health;
  return absl::UnavailableError(absl::StrCat("the device is lost: ", health.message()));
}

ActivityTotals ServingRole::Observe() {
  collections_.UpdateMetrics();
  if (nvml_ != nullptr) {
    for (const GpuState& gpu : nvml_->Read()) {
      metrics_->SetGpu(gpu.device, gpu.utilization_ratio, gpu.temperature_celsius, gpu.power_watts);
    }
  }
  return service::ReadActivity(*metrics_, *devices_, store_, config_.store.memory_budget_bytes);
}

std::string ServingRole::Losses() const {
  std::string text;
  for (size_t device = 0; device < devices_->size(); ++device) {
    if (const absl::Status lost = devices_->StatusOf(device); !lost.ok()) {
      absl::StrAppend(&text, "lost: ", lost.message(), "\n");
    }
  }
  const bool has_lost_devices = !text.empty();
  for (const store::CollectionStatus& status : store_.List()) {
    if (status.is_awaited) absl::StrAppend(&text, "collection ", status.name, " is not here yet: ", status.error, "\n");
    if (status.collection == nullptr || !has_lost_devices) continue;
    const uint64_t count = status.collection->num_unavailable(*devices_);
    if (count == 0) continue;
    absl::StrAppend(&text, "collection ", status.name, ": ", count, " of ", status.collection->num_documents(),
                    " documents cannot be scored\n");
  }
  return text;
}

void ServingRole::ReloadAll() {
  collections_.ReloadAll().IgnoreError();  // each outcome is logged
}

int64_t ServingRole::Drain(absl::Time deadline) {
  // Does not wait for learner_, which StopChanges has asked to stop. Its thread may still wait for another server or
  // for object storage, while clients wait for answers. The destructor waits for that thread.
  texts_.Stop(deadline);
  scorer_.Drain(deadline);
  const int64_t failed = scheduler_.Shutdown(deadline);
  store_.StopLive();  // writes that were accepted are acknowledged
  return failed;
}

}  // namespace maxsim
