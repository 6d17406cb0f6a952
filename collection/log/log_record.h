// A write to a live collection, as the log stores it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The reason why a message of a stream does not change the collection.
enum class SkipReason : uint8_t {
  kOtherPartition = 1,  // the document's slot is not in the collection's partition
  kStale = 2,           // the id already has this version or a newer one, or the message came too late
  kNotFound = 3,        // a delete of an id that the collection does not hold
  kUnreadable = 4,      // no server can apply it: it is damaged, or was written for another format
};

// An upsert, a delete, or a message that was skipped. Strings and rows are views that do not own their memory.
struct LogRecord {
  enum class Kind : uint8_t {
    kUpsert = 1,
    kDelete = 2,
    kSkipped = 3,  // a message without effect, in a log that follows a stream; has no id
  };

  Kind kind = Kind::kUpsert;
  uint64_t sequence = 0;            // 1, 2, ... without a gap, over the collection's life
  std::string_view string_id = {};  // collections with string ids
  int64_t int_id = 0;               // collections with int64 ids
  uint64_t version = 0;             // from the client; 0 if it gave none

  // kUpsert:
  int32_t num_tokens = 0;
  float scale = 0;             // i8
  std::string_view rows = {};  // [num_tokens, dim] in the collection's storage type, packed
  std::string_view payload = {};

  // kSkipped:
  SkipReason skip_reason = SkipReason::kOtherPartition;
};

// Appends the value that the log stores for a record to `value`. It does not include the sequence, which is the key.
void AppendRecordValue(const LogRecord& record, IdType id_type, std::string* value);

// Appends only the first part of the value. The complete value is this part, then the rows, then the payload.
void AppendRecordHead(const LogRecord& record, IdType id_type, std::string* value);

// Parses a value. The result's views point into `value`. Returns DATA_LOSS, naming the sequence, if AppendRecordValue
// cannot have made `value`, for example if the rows do not have num_tokens x `row_bytes` bytes.
absl::StatusOr<LogRecord> ParseRecordValue(uint64_t sequence, std::string_view value, IdType id_type,
                                           int64_t row_bytes);

}  // namespace maxsim::collection
