// How long a log remembers the version of an id that was deleted.
//
// The version of a document is kept as long as the document. A delete with a version leaves a version without a
// document, even for an id that never had a document, so the number of these versions must be limited. The log keeps a
// count of deleted bytes: each delete with a version adds its DeletedBytes, and the count never falls. Once the count
// has grown by more than the log's `remembered_bytes` since a delete, the version of that delete is forgotten, and the
// id has no version. This only depends on the log's records, and not on the time when the database drops the version.
// So all servers that apply the same records make the same decisions.
//
// A log that is made from the logs of others (collection/partition/part_logs.h), for other slots, gets the versions
// that those remember, with their ages: the age of a delete is the growth of the count since. A log for fewer slots
// counts fewer deletes from then on, so it remembers a version for at least as long as its source. A joined log counts
// the deletes of more slots. In all cases a version is only forgotten once deletes of more than `remembered_bytes`
// followed it in the whole stream (of sources at different sequences, the deletes between these sequences count as
// later ones). But two servers with the same slots may no longer forget a version at the same write, if one of them got
// its log in another way or at another time. So they agree about every write that is not older than a delete since
// which the deletes of the whole stream took more than `remembered_bytes`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "collection/log/log_record.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The `remembered_bytes` of a new log. Servers that apply the same stream must have the same limit. So a server
// refuses to follow a stream if its log has a different limit, and a change of this constant needs a new version of
// the stream's messages. This limit is enough for 1.8 million versions of 8-byte ids, or 230,000 of the longest ids.
inline constexpr uint64_t kRememberedBytes = uint64_t{128} << 20;

// Each version counts as the bytes of its id plus this number of bytes, which is roughly its space on the disk, rounded
// up. Without it, a log could remember too many versions of short ids.
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

// Returns a count of deleted bytes: when the log's count has reached `deleted_bytes`, the versions of deletes below the
// returned count are forgotten.
inline uint64_t ForgottenBelow(uint64_t deleted_bytes, uint64_t remembered_bytes) {
  return deleted_bytes > remembered_bytes ? deleted_bytes - remembered_bytes : 0;
}

}  // namespace maxsim::collection
