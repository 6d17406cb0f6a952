// Loads collections that clients name or, after a restart, had created.
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "server/observability/log_event.h"
#include "server/service/bootstrap/bootstrap_folders.h"
#include "server/service/collection_admin.h"

namespace maxsim::service {

std::vector<std::string> CollectionAdmin::Roots() const {
  std::vector<std::string> roots;
  for (const std::string& allowed : allowed_roots_) {
    std::error_code error;
    const std::string root = std::filesystem::canonical(allowed, error).string();
    if (!error) roots.push_back(root);
  }
  return roots;
}

absl::StatusOr<v1::CollectionInfo> CollectionAdmin::LoadNamed(const store::LoadSpec& spec, const StopSignal* stop) {
  // A name counts as unknown while CreateShared waits for its documents.
  const bool was_known = IsKnown(spec.name) && !IsAwaited(spec.name);
  auto loaded = LoadCounted(spec, stop);
  // Free the name again if the collection was never loaded.
  if (!loaded.ok() && !was_known && IsKnown(spec.name)) Forget(spec.name, nullptr).IgnoreError();
  return loaded;
}

void CollectionAdmin::RemoveLeftovers() {
  for (const std::string& root : Roots()) {
    const absl::StatusOr<std::vector<CreatedCollection>> list = created_.List(root);
    // Without the list, folders may be in use. LoadCreated reports the error.
    if (!list.ok()) continue;
    std::set<std::string> listed;
    for (const CreatedCollection& created : *list) listed.insert(created.path);
    service::RemoveLeftovers(root, listed);
  }
}

void CollectionAdmin::LoadCreated() {
  const auto report = [](std::string_view name, const std::string& path, const absl::Status& status) {
    log::Write(spdlog::level::err, "created_collection_not_loaded",
               {{"name", name}, {"path", path}, {"error", status.ToString()}});
  };
  for (const std::string& root : Roots()) {
    const absl::StatusOr<std::vector<CreatedCollection>> list = created_.List(root);
    if (!list.ok()) {
      report("", root, list.status());
      continue;
    }
    for (const CreatedCollection& created : *list) {
      if (IsKnown(created.name)) continue;
      absl::StatusOr<Allowed> from = ResolveAllowed(created.path);
      absl::Status status = from.status();
      if (status.ok()) {
        const auto residency = store::ResidencyFromName(created.residency).value_or(store::Residency::kAuto);
        const auto replication = created.replicate ? store::Replication::kOn : store::Replication::kAuto;
        // A bootstrapped collection may have other slots than cluster.partition says.
        status = LoadCounted({.name = created.name,
                              .path = from->path,
                              .residency = residency,
                              .replication = replication,
                              .root = from->root,
                              .live = true,
                              .any_slots = true},
                             nullptr)
                     .status();
      }
      if (!status.ok()) report(created.name, created.path, status);
    }
  }
}

}  // namespace maxsim::service
