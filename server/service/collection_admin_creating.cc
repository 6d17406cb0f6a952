// Creates live collections: for clients, and those that this server has learned from the cluster.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/text.h"
#include "collection/compact/create.h"
#include "collection/manifest.h"
#include "server/observability/log_event.h"
#include "server/service/call/status.h"
#include "server/service/collection_admin.h"
#include "server/service/creation/collection_request.h"
#include "server/service/creation/create_options.h"

namespace maxsim::service {
namespace {

// Returns the settings of a collection that lies on this server's disk.
store::SharedSettings SettingsOf(const std::string& name, const collection::Manifest& manifest) {
  store::SharedSettings settings;
  settings.options = {.name = name,
                      .dim = manifest.dim,
                      .storage = manifest.storage,
                      .id_type = manifest.id_type,
                      .encoder = manifest.encoder,
                      .codes = manifest.codes,
                      .fields = manifest.fields};
  return settings;
}

void RemoveNewFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
}

}  // namespace

// If `is_new`, creates the collection in its folder. Then adds it to the list of created collections, and loads it.
// After an error, removes it from the list, and removes a new folder, which has no data yet.
absl::StatusOr<v1::CollectionInfo> CollectionAdmin::MakeAndLoad(const store::SharedSettings& settings,
                                                                const Allowed& folder, bool is_new, bool any_slots,
                                                                const StopSignal* stop) {
  const std::string& name = settings.options.name;
  const absl::StatusOr<std::unique_ptr<LiveRoom::Place>> place = live_room_.Take(name);
  if (!place.ok()) return place.status();
  if (is_new) {
    const absl::StatusOr<collection::Manifest> made = collection::CreateLiveCollection(folder.path, settings.options);
    if (!made.ok()) return made.status();
  }
  const absl::Status listed = created_.Add(folder.root, {.name = name,
                                                         .path = folder.path,
                                                         .residency = std::string(store::Name(settings.residency)),
                                                         .replicate = settings.replicate});
  absl::StatusOr<v1::CollectionInfo> loaded = absl::UnknownError("");
  if (!listed.ok()) {
    loaded = listed;
  } else {
    loaded = LoadNamed({.name = name,
                        .path = folder.path,
                        .residency = settings.residency,
                        .replication = settings.replicate ? store::Replication::kOn : store::Replication::kAuto,
                        .root = folder.root,
                        .live = true,
                        .any_slots = any_slots},
                       stop);
  }
  if (!loaded.ok()) {
    created_.RemoveOf(folder.root, name, folder.path).IgnoreError();
    if (is_new) RemoveNewFolder(folder.path);
  }
  return loaded;
}

absl::StatusOr<CollectionAdmin::Allowed> CollectionAdmin::ResolveCreated(const std::string& name,
                                                                         const std::string& path) const {
  if (!path.empty()) return ResolveNew(path);
  if (allowed_roots_.size() > 1) {
    return InvalidField(
        "path", absl::StrCat("is empty, but store.allowed_roots has ", allowed_roots_.size(), " folders; name one"));
  }
  const std::filesystem::path root = allowed_roots_.empty() ? "" : allowed_roots_.front();
  return ResolveNew((root / name).string());
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::CreateForClient(const v1::CreateCollectionRequest& request,
                                                                    const ChangeContext& context) {
  const absl::StatusOr<store::Residency> residency = ParseResidency(request.residency());
  if (!residency.ok()) return residency.status();
  absl::StatusOr<collection::CreateOptions> options = CreateOptionsOf(request);
  if (!options.ok()) return options.status();
  if (store_->partition().has_value()) options->partition = *store_->partition();
  if (options->partition.has_value() && options->partition->is_whole()) options->partition.reset();
  const std::string name = options->name;
  const store::SharedSettings settings{.options = *options,
                                       .residency = *residency,
                                       .replicate = request.replicate(),
                                       .is_partitioned = options->partition.has_value()};
  if (registry_ != nullptr) {
    if (absl::Status status = registry_->Check(settings); !status.ok()) return status;
  }
  const HeldName held(&changing_, name, context.stop);
  if (!held.status().ok()) return held.status();
  if (IsKnown(name)) {
    return FieldError(absl::StatusCode::kAlreadyExists, client::kReasonInvalidField, "name",
                      absl::StrCat("collection ", name, " is loaded already"));
  }
  if (IsBootstrapping(name)) {
    return absl::FailedPreconditionError(absl::StrCat("collection ", name, " is being bootstrapped"));
  }
  const absl::StatusOr<Allowed> folder = ResolveCreated(name, request.path());
  if (!folder.ok()) return folder.status();
  bool is_claimed = false;
  if (registry_ != nullptr) {
    const absl::StatusOr<bool> claimed = registry_->Claim(settings);
    if (!claimed.ok()) return claimed.status();
    is_claimed = *claimed;
  }
  absl::StatusOr<v1::CollectionInfo> loaded =
      MakeAndLoad(settings, *folder, /*is_new=*/true, /*any_slots=*/false, context.stop);
  // Other servers that have already created the collection keep it, as after a call of Unload.
  if (!loaded.ok() && is_claimed) RemoveSettings(name).IgnoreError();
  return loaded;
}

absl::StatusOr<bool> CollectionAdmin::IsNewFolder(const store::SharedSettings& settings, const std::string& path,
                                                  const collection::SlotRange& slots) const {
  std::error_code error;
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) {
    return absl::FailedPreconditionError(Cat(path, " is a symbolic link; remove it"));
  }
  // Only a missing or empty folder counts as new, because a new folder is removed if the load fails.
  if (!std::filesystem::exists(path, error) || std::filesystem::is_empty(path, error)) return true;
  const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(path);
  if (absl::IsNotFound(manifest.status())) {
    return absl::FailedPreconditionError(Cat(path, " exists and holds no collection; move it elsewhere"));
  }
  if (!manifest.ok()) return manifest.status();
  const std::string& name = settings.options.name;
  absl::Status same = registry_->Check(SettingsOf(name, *manifest));
  if (same.ok() && manifest->slots() != slots) {
    same = absl::FailedPreconditionError(Cat("it holds ", collection::DescribeSlots(manifest->slots()),
                                             ", but this server's group has ", collection::DescribeSlots(slots)));
  }
  if (same.ok()) return false;
  return Prefix(Cat(path, " is in the way of collection ", name, ", move it elsewhere: "), same);
}

absl::Status CollectionAdmin::CreateShared(const store::SharedSettings& settings, const collection::SlotRange& slots) {
  const std::string& name = settings.options.name;
  const HeldName held(&changing_, name, &stop_);
  if (!held.status().ok()) return held.status();
  if (IsBootstrapping(name) || IsKnown(name)) return absl::OkStatus();
  // A client may have unloaded the collection since the caller read its settings.
  if (!registry_->MayCreate(name)) return absl::OkStatus();
  const std::vector<std::string> roots = Roots();
  if (roots.empty()) {
    return absl::FailedPreconditionError(
        Cat("none of the folders of store.allowed_roots exists: ", absl::StrJoin(allowed_roots_, ", ")));
  }
  const Allowed folder{.path = JoinPath(roots.front(), name), .root = roots.front()};
  const absl::StatusOr<bool> is_new = IsNewFolder(settings, folder.path, slots);
  if (!is_new.ok()) return is_new.status();
  store::SharedSettings own = settings;
  own.options.created_by = CreatedByThisServer();
  if (!slots.is_whole()) own.options.partition = slots;
  const absl::StatusOr<v1::CollectionInfo> loaded = MakeAndLoad(own, folder, *is_new, /*any_slots=*/true, &stop_);
  if (!loaded.ok()) return loaded.status();
  log::Write(spdlog::level::info, "shared_collection_created",
             {{"name", name}, {"path", folder.path}, {"slots", collection::FormatSlotRange(slots)}});
  return absl::OkStatus();
}

// Returns UNAVAILABLE if NATS does not answer: the settings would stay, and servers would create the collection again.
// But if this server knows of no settings, and does not have the collection either, there is nothing to remove. Only
// logs a refusal by NATS, because this server then cannot have shared the settings.
absl::Status CollectionAdmin::RemoveSettings(const std::string& name) {
  bool is_known = false;
  for (const store::CollectionStatus& status : store_->List()) {
    if (status.name != name) continue;
    if (status.collection != nullptr && status.live == nullptr) return absl::OkStatus();
    is_known = true;
  }
  const absl::Status status = registry_->Remove(name);
  if (absl::IsUnavailable(status) && !is_known && registry_->IsUnused(name)) return absl::OkStatus();
  if (status.ok() || absl::IsUnavailable(status)) return status;
  log::Write(spdlog::level::warn, "shared_settings_kept", {{"name", name}, {"error", status.ToString()}});
  return absl::OkStatus();
}

}  // namespace maxsim::service
