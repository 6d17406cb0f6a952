#include "server/service/collection_admin.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/folder.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/generations/kept_generations.h"
#include "collection/log/collection_log.h"
#include "server/observability/logging.h"
#include "server/service/bootstrap/bootstrap_folders.h"
#include "server/service/call/status.h"
#include "server/service/creation/collection_request.h"
#include "server/service/request/info.h"

namespace maxsim::service {
namespace {

absl::Status PathError(absl::StatusCode code, std::string_view problem) {
  const bool is_outside = code == absl::StatusCode::kPermissionDenied;
  return FieldError(code, is_outside ? client::kReasonOutsideAllowedRoots : client::kReasonInvalidField, "path",
                    problem);
}

absl::StatusOr<store::ReloadTarget> TargetOf(const v1::ReloadCollectionRequest& request) {
  constexpr uint64_t kMaxGeneration = std::numeric_limits<int64_t>::max() - 1;
  const auto check = [](std::string_view field, uint64_t value, uint64_t max) {
    if (value <= max) return absl::OkStatus();
    return InvalidField(field, absl::StrCat("is ", value, "; must be at most ", max), Limit(max, value));
  };
  absl::Status status = check("generation", request.generation(), kMaxGeneration);
  status.Update(check("revision", request.revision(), collection::kMaxReloadRevision));
  if (!status.ok()) return status;
  return store::ReloadTarget{.generation = static_cast<int64_t>(request.generation()), .revision = request.revision()};
}

// Names the field that an error of CollectionStore::Reload is about.
absl::Status AboutTarget(const absl::Status& status) {
  const std::string problem(status.message());
  if (absl::IsOutOfRange(status)) {
    return FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonOtherGeneration, "generation", problem);
  }
  if (absl::IsAborted(status)) {
    return FieldError(absl::StatusCode::kAborted, client::kReasonOtherRevision, "revision", problem);
  }
  return status;
}

}  // namespace

CollectionAdmin::CollectionAdmin(store::CollectionStore* store, const store::DeviceSet* devices, Metrics* metrics,
                                 std::vector<std::string> allowed_roots)
    : store_(store),
      devices_(devices),
      metrics_(metrics),
      allowed_roots_(std::move(allowed_roots)),
      live_room_(store),
      snapshot_reads_(kMaxSnapshotReads, "calls of ReadSnapshot", kSnapshotRetryDelay) {}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::Load(const std::string& name, const std::string& path,
                                                         store::Residency residency, store::Replication replication,
                                                         bool live) {
  {
    const MutexLock lock(&bootstrap_mutex_);
    configured_.insert(name);
  }
  return LoadCounted(
      {.name = name, .path = path, .residency = residency, .replication = replication, .live = live, .at_start = true},
      nullptr);
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::LoadCounted(const store::LoadSpec& spec, const StopSignal* stop) {
  RemoveReadingLeftovers(spec.path);
  const absl::Time begin = MonotonicNow();
  auto loaded = store_->Load(spec, stop);
  const absl::Duration duration = MonotonicNow() - begin;
  CountLoad(spec.name, loaded.ok(), duration);
  if (!loaded.ok()) return loaded.status();
  return Info(spec.name);
}

std::optional<std::string> CollectionAdmin::RootOf(const std::filesystem::path& resolved) const {
  for (const std::string& allowed : allowed_roots_) {
    std::error_code error;
    const std::string root = std::filesystem::canonical(allowed, error).string();
    if (!error && IsBeneath(root, resolved.string())) return root;
  }
  return std::nullopt;
}

absl::Status CollectionAdmin::CheckPath(const std::string& path) const {
  if (path.empty()) return InvalidField("path", "is empty; give a folder on the server's machine");
  // Refuse control characters, such as a zero byte, which ends a path.
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); })) {
    return InvalidField("path", absl::StrCat(Quote(path), " holds a control character"));
  }
  if (!allowed_roots_.empty()) return absl::OkStatus();
  return PathError(absl::StatusCode::kPermissionDenied,
                   "store.allowed_roots names no folder that clients may load from");
}

absl::Status CollectionAdmin::NotAllowed(const std::string& path) const {
  // A relative path is resolved on the server. So show the absolute path.
  std::error_code of_absolute;
  const std::filesystem::path absolute = std::filesystem::absolute(path, of_absolute);
  const bool is_relative = !of_absolute && std::filesystem::path(path).is_relative();
  return PathError(absl::StatusCode::kPermissionDenied,
                   absl::StrCat(path, is_relative ? absl::StrCat(" (", absolute.string(), " on the server)") : "",
                                " is not under store.allowed_roots (", absl::StrJoin(allowed_roots_, ", "), ")"));
}

absl::StatusOr<CollectionAdmin::Allowed> CollectionAdmin::ResolveAllowed(const std::string& path) const {
  if (absl::Status status = CheckPath(path); !status.ok()) return status;
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  if (!error) {
    if (std::optional<std::string> root = RootOf(resolved)) return Allowed{resolved.string(), *std::move(root)};
  }
  if (error == std::errc::no_such_file_or_directory) {
    // Say that the folder is missing only if its parent is allowed, so that clients learn nothing about other folders.
    // A symbolic link may lead anywhere, so say nothing about it.
    std::error_code of_link;
    const bool is_link = std::filesystem::is_symlink(std::filesystem::symlink_status(path, of_link));
    std::error_code of_parent;
    const auto parent = std::filesystem::canonical(std::filesystem::path(path).parent_path(), of_parent);
    if (!is_link && !of_parent && RootOf(parent).has_value()) {
      return PathError(absl::StatusCode::kNotFound, absl::StrCat(path, ": ", error.message()));
    }
  }
  return NotAllowed(path);
}

absl::Status CollectionAdmin::CheckInNoCollection(const std::string& path, const std::filesystem::path& parent,
                                                  const std::string& root) const {
  // Refuse a path within another collection's folder: if that folder were moved or removed, so would the new
  // collection.
  for (std::filesystem::path folder = parent;; folder = folder.parent_path()) {
    std::error_code error;
    if (std::filesystem::exists(folder / collection::kManifestFileName, error)) {
      return InvalidField("path", absl::StrCat(path, " lies in the folder of a collection, ", folder.string()));
    }
    if (folder == root || folder == folder.root_path()) return absl::OkStatus();
  }
}

absl::StatusOr<CollectionAdmin::Allowed> CollectionAdmin::ResolveNew(const std::string& path) const {
  if (absl::Status status = CheckPath(path); !status.ok()) return status;
  // A path with a slash at its end names the same folder.
  std::filesystem::path wanted(path);
  if (!wanted.has_filename()) wanted = wanted.parent_path();
  const std::filesystem::path name = wanted.filename();
  if (name.empty() || name == "." || name == "..") return NotAllowed(path);
  std::error_code error;
  const std::filesystem::path parent =
      std::filesystem::canonical(wanted.has_parent_path() ? wanted.parent_path() : ".", error);
  if (error) {
    std::error_code of_wanted;
    const std::filesystem::path would_be = std::filesystem::weakly_canonical(wanted, of_wanted);
    if (of_wanted || !RootOf(would_be).has_value()) return NotAllowed(path);
    return PathError(absl::StatusCode::kNotFound,
                     absl::StrCat(path, ": its parent folder cannot be used: ", error.message()));
  }
  std::optional<std::string> root = RootOf(parent);
  if (!root.has_value()) return NotAllowed(path);
  if (absl::Status status = CheckInNoCollection(path, parent, *root); !status.ok()) return status;
  const std::filesystem::path resolved = parent / name;
  // A symbolic link counts as existing, wherever it leads.
  if (std::filesystem::exists(std::filesystem::symlink_status(resolved, error))) {
    return PathError(absl::StatusCode::kAlreadyExists, absl::StrCat(path, " exists already; give a new folder"));
  }
  return Allowed{resolved.string(), *std::move(root)};
}

bool CollectionAdmin::IsKnown(const std::string& name) const {
  const std::vector<store::CollectionStatus> all = store_->List();
  return std::any_of(all.begin(), all.end(), [&](const store::CollectionStatus& one) { return one.name == name; });
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::LoadForClient(const v1::LoadCollectionRequest& request,
                                                                  const ChangeContext& context) {
  const absl::StatusOr<store::Residency> residency = ParseResidency(request.residency());
  if (!residency.ok()) return residency.status();
  if (absl::Status status = CheckName(request.name()); !status.ok()) return status;
  auto resolved = ResolveAllowed(request.path());
  if (!resolved.ok()) return resolved.status();
  std::unique_ptr<LiveRoom::Place> place;
  if (request.live() || collection::HasLog(resolved->path)) {
    absl::StatusOr<std::unique_ptr<LiveRoom::Place>> taken = live_room_.Take(request.name());
    if (!taken.ok()) return taken.status();
    place = *std::move(taken);
  }
  return LoadNamed({.name = request.name(),
                    .path = resolved->path,
                    .residency = *residency,
                    .replication = request.replicate() ? store::Replication::kOn : store::Replication::kAuto,
                    .root = resolved->root,
                    .live = request.live()},
                   context.stop);
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::Compact(const std::string& name, bool* changed,
                                                            const ChangeContext& context) {
  const absl::StatusOr<std::shared_ptr<store::LiveDocuments>> live = store_->FindLive(name);
  if (!live.ok()) return live.status();
  absl::Status status = (*live)->Compact(context.stop, changed);
  UpdateMetrics();
  if (!status.ok()) return status;
  return Info(name);
}

absl::StatusOr<uint64_t> CollectionAdmin::SnapshotForClient(const std::string& name, const std::string& path,
                                                            const ChangeContext& context) {
  const absl::StatusOr<std::shared_ptr<store::LiveDocuments>> live = store_->FindLive(name);
  if (!live.ok()) return live.status();
  const absl::StatusOr<Allowed> resolved = ResolveNew(path);
  if (!resolved.ok()) return resolved.status();
  return (*live)->SnapshotTo(resolved->path, context.stop);
}

absl::StatusOr<v1::ReloadCollectionResponse> CollectionAdmin::Reload(const v1::ReloadCollectionRequest& request,
                                                                     const ChangeContext& context) {
  const absl::StatusOr<store::ReloadTarget> target = TargetOf(request);
  if (!target.ok()) return target.status();
  bool changed = false;
  const absl::Time begin = MonotonicNow();
  auto reloaded = store_->Reload(request.name(), &changed, context.stop, *target);
  const absl::Duration duration = MonotonicNow() - begin;
  CountLoad(request.name(), reloaded.ok(), duration);
  if (!reloaded.ok()) return AboutTarget(reloaded.status());
  if (!changed) {
    log::Write(spdlog::level::info, "collection_unchanged",
               {{"name", request.name()}, {"generation", (*reloaded)->manifest().generation}});
  }
  absl::StatusOr<v1::CollectionInfo> info = Info(request.name());
  if (!info.ok()) return info.status();
  v1::ReloadCollectionResponse response;
  *response.mutable_collection() = *std::move(info);
  response.set_changed(changed);
  return response;
}

absl::Status CollectionAdmin::ReloadAll() {
  absl::Status first;
  std::vector<store::CollectionStatus> all = store_->List();
  // Collections that are just being loaded come last, so that the rest need not wait.
  std::stable_partition(all.begin(), all.end(),
                        [&](const store::CollectionStatus& status) { return !store_->IsBusy(status.name); });
  for (const store::CollectionStatus& status : all) {
    v1::ReloadCollectionRequest request;
    request.set_name(status.name);
    first.Update(Reload(request, {}).status());
  }
  return first;
}

absl::Status CollectionAdmin::Unload(const std::string& name, bool remove_settings, const ChangeContext& context) {
  if (registry_ == nullptr) return Forget(name, context.stop);
  // While this call holds the name, the learner does not create the collection.
  const HeldName held(&changing_, name, context.stop);
  if (!held.status().ok()) return held.status();
  if (absl::Status status = EndFill(name, context.stop); !status.ok()) return status;
  if (remove_settings) {
    if (absl::Status status = RemoveSettings(name); !status.ok()) return status;
  }
  absl::Status status = Forget(name, context.stop);
  // Without this, the server could create the collection again from its shared settings. Even if they were just
  // removed, this server may not have read that yet.
  if (status.ok() || remove_settings) registry_->NoteUnloaded(name);
  return status;
}

absl::Status CollectionAdmin::Forget(const std::string& name, const StopSignal* stop) {
  absl::Status status = store_->Unload(name, stop);
  if (!status.ok()) return status;
  UpdateMetrics();
  for (const std::string& root : Roots()) {
    if (absl::Status removed = created_.Remove(root, name); !removed.ok()) {
      log::Write(spdlog::level::warn, "created_collection_kept",
                 {{"name", name}, {"root", root}, {"error", removed.ToString()}});
    }
  }
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
  return absl::NotFoundError(absl::StrCat("collection ", name, " was unloaded in the meantime"));
}

void CollectionAdmin::CountLoad(const std::string& name, bool ok, absl::Duration duration) {
  // Clients choose the names of collections, and each name becomes a label in the metrics. So count only collections
  // that are served. Their labels are removed when they are unloaded.
  if (store_->Find(name).ok()) metrics_->CountReload(name, ok, duration);
  UpdateMetrics();
}

}  // namespace maxsim::service
