// A registry of shared settings in memory.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/error_details.h"
#include "server/store/shared_settings.h"

namespace maxsim::service {

// Keeps the shared settings of collections in memory. Check compares only dimensions. Not thread-safe: in these tests,
// CollectionAdmin never calls it from two threads at a time.
class FakeRegistry final : public store::SettingsRegistry {
 public:
  absl::Status Check(const store::SharedSettings& settings) const override {
    const auto found = shared.find(settings.options.name);
    if (found == shared.end() || found->second.options.dim == settings.options.dim) return absl::OkStatus();
    return client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonInvalidField, "dim", "differs");
  }
  absl::StatusOr<bool> Claim(const store::SharedSettings& settings) override {
    if (on_claim != nullptr) on_claim();
    if (!status.ok()) return status;
    if (absl::Status same = Check(settings); !same.ok()) return same;
    return shared.emplace(settings.options.name, settings).second;
  }
  absl::Status Remove(const std::string& name) override {
    ++num_removals;
    if (!status.ok()) return status;
    shared.erase(name);
    return absl::OkStatus();
  }
  bool MayCreate(const std::string& name) const override {
    return shared.contains(name) && std::find(unloaded.begin(), unloaded.end(), name) == unloaded.end();
  }
  bool IsUnused(const std::string& name) const override { return has_read && !shared.contains(name); }
  void NoteUnloaded(const std::string& name) override { unloaded.push_back(name); }

  absl::Status status;  // of Claim and Remove
  std::function<void()> on_claim;
  std::map<std::string, store::SharedSettings> shared;
  std::vector<std::string> unloaded;
  bool has_read = true;
  int num_removals = 0;
};

}  // namespace maxsim::service
