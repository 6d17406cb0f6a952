// The plan of a bootstrap, made from a request that was checked.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collection/manifest.h"
#include "collection/slots.h"
#include "server/service/creation/created_collections.h"
#include "server/store/memory/residency.h"

namespace maxsim::service {

struct BootstrapPlan {
  std::string name;
  std::vector<std::string> sources = {};  // addresses of servers; with `is_backup`, the URL of a backup
  bool is_backup = false;
  collection::SlotRange slots = {};
  store::Residency residency = store::Residency::kAuto;
  bool replicate = false;
  std::string root = {};                          // in which the new folder lies
  std::optional<CreatedCollection> earlier = {};  // the entry of the list that the new one replaces
  std::set<std::string> listed = {};              // the paths in the root's list
  // Checks the collection that was made of the snapshots before it is loaded; its error ends the bootstrap. May be
  // null.
  std::function<absl::Status(const collection::Manifest& manifest)> check = nullptr;
};

}  // namespace maxsim::service
