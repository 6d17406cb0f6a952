#include "server/service/collection_admin.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/folder.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "server/observability/logging.h"
#include "server/service/info.h"

namespace maxsim::service {

CollectionAdmin::CollectionAdmin(store::CollectionStore* store, const store::DeviceSet* devices, Metrics* metrics,
                                 std::vector<std::string> allowed_roots)
    : store_(store), devices_(devices), metrics_(metrics), allowed_roots_(std::move(allowed_roots)) {}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::Load(const std::string& name, const std::string& path,
                                                         store::Residency residency, store::Replication replication) {
  return LoadCounted(name, {path, ""}, residency, replication, nullptr);
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::LoadCounted(const std::string& name, const Allowed& from,
                                                                store::Residency residency,
                                                                store::Replication replication,
                                                                const StopSignal* stop) {
  const absl::Time begin = MonotonicNow();
  auto loaded = store_->Load(name, from.path, residency, replication, from.root, stop);
  const absl::Duration duration = MonotonicNow() - begin;
  CountLoad(name, loaded.ok(), duration);
  if (!loaded.ok()) return loaded.status();
  return Info(name);
}

std::optional<std::string> CollectionAdmin::RootOf(const std::filesystem::path& resolved) const {
  for (const std::string& allowed : allowed_roots_) {
    std::error_code error;
    const std::string root = std::filesystem::canonical(allowed, error).string();
    if (!error && IsBeneath(root, resolved.string())) return root;
  }
  return std::nullopt;
}

absl::StatusOr<CollectionAdmin::Allowed> CollectionAdmin::ResolveAllowed(const std::string& path) const {
  if (path.empty()) return absl::InvalidArgumentError("path: is empty, and a folder with a collection is wanted");
  // The system would take it to end at a zero byte.
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); })) {
    return absl::InvalidArgumentError(absl::StrCat("path: ", Quote(path), " holds a control character"));
  }
  if (allowed_roots_.empty()) {
    return absl::PermissionDeniedError("path: store.allowed_roots names no folder that clients may load from");
  }
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  if (!error) {
    if (std::optional<std::string> root = RootOf(resolved)) return Allowed{resolved.string(), *std::move(root)};
  }
  if (error == std::errc::no_such_file_or_directory) {
    // The answer may say that a folder is missing where its parent is allowed; but a link may point anywhere.
    std::error_code of_link;
    const bool is_link = std::filesystem::is_symlink(std::filesystem::symlink_status(path, of_link));
    std::error_code of_parent;
    const auto parent = std::filesystem::canonical(std::filesystem::path(path).parent_path(), of_parent);
    if (!is_link && !of_parent && RootOf(parent).has_value()) {
      return absl::NotFoundError(absl::StrCat("path: ", path, ": ", error.message()));
    }
  }
  // A relative path begins where the server was started, and not where the client is.
  std::error_code of_absolute;
  const std::filesystem::path absolute = std::filesystem::absolute(path, of_absolute);
  const bool is_relative = !of_absolute && std::filesystem::path(path).is_relative();
  return absl::PermissionDeniedError(
      absl::StrCat("path: ", path, is_relative ? absl::StrCat(" (", absolute.string(), " on the server)") : "",
                   " is not under store.allowed_roots (", absl::StrJoin(allowed_roots_, ", "), ")"));
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::LoadForClient(const std::string& name, const std::string& path,
                                                                  const std::string& residency, bool replicate,
                                                                  const StopSignal* stop) {
  const auto parsed = residency.empty() ? std::optional(store::Residency::kAuto) : store::ResidencyFromName(residency);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("residency: is \"", residency, "\", and auto, gpu, host and disk are accepted"));
  }
  if (absl::Status status = collection::CheckCollectionName(name); !status.ok()) return status;
  auto resolved = ResolveAllowed(path);
  if (!resolved.ok()) return resolved.status();
  const auto is_known = [&] {
    const std::vector<store::CollectionStatus> all = store_->List();
    return std::any_of(all.begin(), all.end(), [&](const store::CollectionStatus& one) { return one.name == name; });
  };
  const bool was_known = is_known();
  auto loaded =
      LoadCounted(name, *resolved, *parsed, replicate ? store::Replication::kOn : store::Replication::kAuto, stop);
  // The client has been told; the name of a collection that never was would only stay in the way.
  if (!loaded.ok() && !was_known && is_known()) Unload(name).IgnoreError();
  return loaded;
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::Reload(const std::string& name, bool* changed,
                                                           const StopSignal* stop) {
  const absl::Time begin = MonotonicNow();
  auto reloaded = store_->Reload(name, changed, stop);
  const absl::Duration duration = MonotonicNow() - begin;
  CountLoad(name, reloaded.ok(), duration);
  if (!reloaded.ok()) return reloaded.status();
  if (!*changed) {
    log::Write(spdlog::level::info, "collection_unchanged",
               {{"name", name}, {"generation", (*reloaded)->manifest().generation}});
  }
  return Info(name);
}

absl::Status CollectionAdmin::ReloadAll() {
  absl::Status first;
  std::vector<store::CollectionStatus> all = store_->List();
  // One that takes long must not keep the others from being reloaded.
  std::stable_partition(all.begin(), all.end(),
                        [&](const store::CollectionStatus& status) { return !store_->IsBusy(status.name); });
  for (const store::CollectionStatus& status : all) {
    bool changed = false;
    first.Update(Reload(status.name, &changed).status());
  }
  return first;
}

absl::Status CollectionAdmin::Unload(const std::string& name, const StopSignal* stop) {
  absl::Status status = store_->Unload(name, stop);
  if (!status.ok()) return status;
  UpdateMetrics();
  return status;
}

std::vector<v1::CollectionInfo> CollectionAdmin::List() const {
  std::vector<v1::CollectionInfo> infos;
  for (const store::CollectionStatus& status : store_->List()) infos.push_back(ToProto(status, *devices_));
  return infos;
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::Info(const std::string& name) const {
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.name == name) return ToProto(status, *devices_);
  }
  return absl::NotFoundError(absl::StrCat("collection ", name, " is gone again"));
}

void CollectionAdmin::CountLoad(const std::string& name, bool ok, absl::Duration duration) {
  // A label comes from a client here: only what is served becomes one, until it is unloaded.
  if (store_->Find(name).ok()) metrics_->CountReload(name, ok, duration);
  UpdateMetrics();
}

namespace {

LiveGauges GaugesOf(const store::LiveState& state) {
  return {.sequence = state.sequence,
          .compacted_sequence = state.compacted_sequence,
          .num_changed_documents = state.num_changed_documents,
          .num_deleted_documents = state.num_deleted_documents,
          .num_segments = state.num_segments,
          .segment_bytes = state.segment_bytes,
          .segment_used_bytes = state.segment_used_bytes,
          .log_bytes = state.log_bytes,
          .accepts_writes = state.status.ok(),
          .is_compacting = state.is_compacting};
}

}  // namespace

void CollectionAdmin::UpdateMetrics() {
  MutexLock lock(&metrics_mutex_);
  std::set<std::string> gone = std::move(exported_);
  exported_.clear();
  double device = 0;
  double host = 0;
  double index = 0;
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.collection == nullptr) continue;
    const store::Collection& collection = *status.collection;
    Metrics::CollectionGauges gauges;
    gauges.storage = Name(collection.storage());
    gauges.residency = collection.tiers();
    gauges.generation = static_cast<uint64_t>(collection.manifest().generation);
    gauges.num_documents = collection.num_documents();
    gauges.num_tokens = collection.num_tokens();
    gauges.num_unavailable = collection.num_unavailable(*devices_);
    for (const store::Collection::TierUsage& share : collection.tier_usage()) {
      gauges.resident.push_back({Name(share.tier), devices_->number(share.device), share.resident_bytes()});
      device += static_cast<double>(share.device_bytes);
      host += static_cast<double>(share.host_bytes);
    }
    metrics_->SetCollection(status.name, gauges);
    if (status.live != nullptr) metrics_->live().Set(status.name, GaugesOf(status.live->state()));
    gone.erase(status.name);
    exported_.insert(status.name);
    index += static_cast<double>(collection.index_bytes());
  }
  for (const std::string& name : gone) {
    metrics_->RemoveCollection(name);
    metrics_->live().Remove(name);
  }
  metrics_->SetMemory("host", "id_index", index);
  metrics_->SetMemory(devices_->is_gpu() ? "pinned" : "host", "collections", host);
  if (devices_->is_gpu()) metrics_->SetMemory("device", "collections", device);
}

}  // namespace maxsim::service
