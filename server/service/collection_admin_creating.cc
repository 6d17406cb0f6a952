// Creates live collections for clients.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "collection/compact/create.h"
#include "collection/manifest.h"
#include "server/observability/log_event.h"
#include "server/service/bootstrap/bootstrap_folders.h"
#include "server/service/call/status.h"
#include "server/service/collection_admin.h"
#include "server/service/creation/collection_request.h"
#include "server/service/creation/create_options.h"

namespace maxsim::service {
// Creates the collection in its folder, adds it to the list of created collections, and loads it. After an error,
// removes it from the list, and removes the folder, which has no documents yet.
absl::StatusOr<v1::CollectionInfo> CollectionAdmin::MakeAndLoad(const store::SharedSettings& settings,
                                                                const Allowed& folder, const StopSignal* stop) {
  const std::string& name = settings.options.name;
  const absl::StatusOr<std::unique_ptr<LiveRoom::Place>> place = live_room_.Take(name);
  if (!place.ok()) return place.status();
  const absl::StatusOr<collection::Manifest> made = collection::CreateLiveCollection(folder.path, settings.options);
  if (!made.ok()) return made.status();
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
                        .live = true},
                       stop);
  }
  if (!loaded.ok()) {
    created_.RemoveOf(folder.root, name, folder.path).IgnoreError();
    RemoveFolder(folder.path);
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
  if (absl::Status status = WaitForFill(name, context.stop); !status.ok()) return status;
  if (IsKnown(name)) {
    return FieldError(absl::StatusCode::kAlreadyExists, client::kReasonInvalidField, "name",
                      absl::StrCat("collection ", name,
                                   IsAwaited(name) ? " is one of the cluster, and this server waits for its documents"
                                                   : " is loaded already"));
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
  absl::StatusOr<v1::CollectionInfo> loaded = MakeAndLoad(settings, *folder, context.stop);
  // Loading failed, so no longer share the settings. Other servers that have created the collection meanwhile keep it.
  if (!loaded.ok() && is_claimed) RemoveSettings(name).IgnoreError();
  return loaded;
}

// Removes the shared settings of a collection. If NATS does not answer, returns UNAVAILABLE, because the settings stay
// and servers would create the collection again. But if this server neither has the collection nor knows of settings,
// there is nothing to remove, and it returns OK. Any other error of NATS is only logged: this server then cannot have
// shared the settings.
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
