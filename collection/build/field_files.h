// Writes the files of fields beside complete shards.
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

// Estimates the most bytes that the field file of a shard takes, for the check of free disk space.
int64_t EstimateFieldBytes(const std::vector<Field>& fields, const ShardPlan& plan);

// Reads the fields that the manifest declares from a shard's payloads, and writes the field file of `generation` and
// number `index`. The shard is in `folder` under the entry's name. Adds the file to `files` before it appears in the
// folder. Returns the entry of the complete file. Takes memory for the shard's payloads and the file. If a value does
// not fit its field, returns INVALID_ARGUMENT with document, id, field and value. Other errors are those of Shard::Open
// and of writing.
absl::StatusOr<FileEntry> WriteFieldFile(const std::string& folder, const Manifest& manifest, const ShardEntry& entry,
                                         int64_t generation, int64_t index, UnpublishedFiles& files);

}  // namespace maxsim::collection
