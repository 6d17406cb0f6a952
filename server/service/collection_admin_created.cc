// Loads the collections that clients created, after a restart.
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "server/observability/log_event.h"
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
        status = LoadCounted(created.name, *from, residency, replication, /*live=*/true, nullptr).status();
      }
      if (!status.ok()) report(created.name, created.path, status);
    }
  }
}

}  // namespace maxsim::service
