// Writes the field files of complete shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_plan.h"
#include "collection/field.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Estimates the most bytes that a shard's field file can take. Used to check the free disk space.
int64_t EstimateFieldBytes(const std::vector<Field>& fields, const ShardPlan& plan);

// Reads the fields that the manifest declares from the payloads of the shard `folder`/entry.file, and writes them into
// the file FieldFileName(generation, index). Adds this file to `files` before it exists. Returns its entry. Takes
// memory for the shard's payloads and the new file. If a value does not fit its field, returns INVALID_ARGUMENT with
// document, id, field and value. Other errors are those of Shard::Open and of writing.
absl::StatusOr<FileEntry> WriteFieldFile(const std::string& folder, const Manifest& manifest, const ShardEntry& entry,
                                         int64_t generation, int64_t index, UnpublishedFiles& files);

}  // namespace maxsim::collection
