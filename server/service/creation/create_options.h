// Reads the options of a new collection from a CreateCollectionRequest.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "collection/compact/create.h"
#include "maxsim/v1/admin.pb.h"

namespace maxsim::service {

// Returns the value of CreateOptions::created_by for collections that this program creates: its name and version.
std::string CreatedByThisServer();

// Returns the options of the collection to create, or INVALID_ARGUMENT if no collection can have one of the values.
// Sets `partition` if the request has slots, even if these are all slots.
absl::StatusOr<collection::CreateOptions> CreateOptionsOf(const v1::CreateCollectionRequest& request);

}  // namespace maxsim::service
