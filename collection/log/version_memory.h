// How long a log remembers the version of an id that was deleted.
//
// A version of a document is kept as long as the document. A delete with a version leaves a version without a document,
// for ids that never had one too, so their number must have a limit. Each of these deletes adds DeletedBytes to a count
// of the log, its deleted bytes, which never goes back. The version is forgotten once the count has grown by more than
// the log's `remembered_bytes` since: the id then has no version. This follows from the log's records alone, whenever
// the database drops the bytes, so that every server that applies the same records decides alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collection/log/log_record.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Limit of a log, from when it is created. Servers that apply the same stream must have the same one. At most 1.8
// million versions of ids of 8 bytes, or 230,000 of the longest ids.
inline constexpr uint64_t kRememberedBytes = uint64_t{128} << 20;

// Disk space that a version takes beside its id, rounded up: it limits the number of versions of short ids.
inline constexpr uint64_t kBytesPerVersion = 64;

// Returns how much a record adds to the count of deleted bytes: 0 unless it is a delete with a version.
inline uint64_t DeletedBytes(const LogRecord& record, IdType id_type) {
  if (record.kind != LogRecord::Kind::kDelete || record.version == 0) return 0;
  return kBytesPerVersion + (id_type == IdType::kInt64 ? sizeof(record.int_id) : record.string_id.size());
}

// Returns the count below which versions are forgotten when the log's count is `deleted_bytes`.
inline uint64_t ForgottenBelow(uint64_t deleted_bytes, uint64_t remembered_bytes) {
  return deleted_bytes > remembered_bytes ? deleted_bytes - remembered_bytes : 0;
}

}  // namespace maxsim::collection
