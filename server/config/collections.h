// Parses, checks and merges the collections of the configuration.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace maxsim::config {

// Parses "NAME=PATH[,RESIDENCY][,replicate][,live]".
absl::StatusOr<CollectionConfig> ParseCollection(std::string_view text);

// Returns INVALID_ARGUMENT if the name is not allowed or the path is empty.
absl::Status ValidateCollection(const CollectionConfig& collection);

// Returns the key of the named collection in Loaded::origins.
std::string CollectionKey(std::string_view name);

// Replaces the element of `collections` with the same name, or appends a new one. So a flag can override a collection
// of the configuration file.
void MergeCollection(CollectionConfig collection, std::vector<CollectionConfig>& collections);

}  // namespace maxsim::config
