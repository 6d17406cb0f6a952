// Reads the options of a new collection from a CreateCollectionRequest, and those of an existing one from its manifest.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "collection/compact/create.h"
#include "collection/manifest.h"
#include "maxsim/v1/admin.pb.h"
#include "server/store/shared_settings.h"

namespace maxsim::service {

// Returns the CreateOptions::created_by of new collections: name and version.
std::string CreatedByThisServer();

// Returns the options of the collection to create, or INVALID_ARGUMENT if a value is not valid for any collection. If
// the request has slots, sets `partition`, even if these are all slots.
absl::StatusOr<collection::CreateOptions> CreateOptionsOf(const v1::CreateCollectionRequest& request);

// Returns the settings of a collection on this server's disk.
store::SharedSettings SettingsOf(const std::string& name, const collection::Manifest& manifest);

}  // namespace maxsim::service
