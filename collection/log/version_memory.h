// Decides how long a log remembers the version (a client's number for a write) of an id that was deleted.
//
// A document's version is kept as long as the document. The versions of deleted ids would grow without limit, so the
// log keeps a count of deleted bytes: each delete with a version adds its DeletedBytes, and the count never falls. Once
// the count has grown by more than the log's `remembered_bytes` since a delete, the version of this delete is
// forgotten: the id has no version. This depends only on the log's records, so all servers that apply the same records
// forget the same versions at the same write.
//
// A log that is made from other logs, for other slots (collection/partition/part_logs.h), gets the versions that those
// remember, with their ages: the age of a delete is the growth of the count since. Later, a log of fewer slots counts
// fewer deletes, so it forgets later, and a joined log counts more. In all cases a version is forgotten only after more
// than `remembered_bytes` of deletes in the whole stream. But two servers with the same slots may forget a version at
// different writes if one of them got its log in another way. They can then disagree only about a write that is older
// than a delete which more than `remembered_bytes` of deletes in the stream have followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collection/log/log_record.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The `remembered_bytes` of a new log: enough for 1.8 million versions of 8-byte ids, or 230,000 of the longest ids.
// All servers of a stream must have the same limit: a server whose log has another limit refuses to follow the stream.
// A change of this constant needs a new version of the stream's messages.
inline constexpr uint64_t kRememberedBytes = uint64_t{128} << 20;

// Added to the bytes of the id for each version. This is roughly a version's space on disk, rounded up.
inline constexpr uint64_t kBytesPerVersion = 64;

// The version of an id, as the log stores it.
struct StoredVersion {
  uint64_t version = 0;
  // The log's count of deleted bytes just after the delete that gave the id this version; nullopt for the version of a
  // document.
  std::optional<uint64_t> deleted_at;
};

struct IdVersion {
  std::string_view string_id = {};  // collections with string ids; not owned
  int64_t int_id = 0;               // collections with int64 ids
  StoredVersion version;
};

// Returns how much a record adds to the count of deleted bytes: 0 unless it is a delete with a version.
inline uint64_t DeletedBytes(const LogRecord& record, IdType id_type) {
  if (record.kind != LogRecord::Kind::kDelete || record.version == 0) return 0;
  return kBytesPerVersion + (id_type == IdType::kInt64 ? sizeof(record.int_id) : record.string_id.size());
}

// Returns the count of deleted bytes below which deletes are forgotten, when the log's count is `deleted_bytes`.
inline uint64_t ForgottenBelow(uint64_t deleted_bytes, uint64_t remembered_bytes) {
  return deleted_bytes > remembered_bytes ? deleted_bytes - remembered_bytes : 0;
}

}  // namespace maxsim::collection
