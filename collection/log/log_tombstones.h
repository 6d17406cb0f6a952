// The tombstones (ordinals of deleted and replaced documents) in a log's database. The key is the generation's number
// and the shard's index. A shard without tombstones has no key.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_database.h"
#include "collection/manifest.h"

namespace rocksdb {
class WriteBatch;
}  // namespace rocksdb

namespace maxsim::collection {

// Adds the changes of CollectionLog::PutTombstones to the batch. Returns INVALID_ARGUMENT if the tombstones do not fit
// the manifest's shards.
absl::Status AddTombstones(const LogDatabase& database, const Manifest& manifest, const Tombstones& tombstones,
                           rocksdb::WriteBatch* batch);

// Adds the deletion of the tombstones of all generations but `generation` to the batch. Adds nothing if there are none.
absl::Status AddDropOfOthers(const LogDatabase& database, int64_t generation, rocksdb::WriteBatch* batch);

// See CollectionLog::TombstonesOf.
absl::StatusOr<Tombstones> ReadTombstones(const LogDatabase& database, const Manifest& manifest);

}  // namespace maxsim::collection
