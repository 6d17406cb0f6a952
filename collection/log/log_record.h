// A write to a live collection, as its log has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Holds one upsert or delete. Strings and rows are views of memory that somebody else keeps.
struct LogRecord {
  enum class Kind : uint8_t { kUpsert = 1, kDelete = 2 };

  Kind kind = Kind::kUpsert;
  uint64_t sequence = 0;            // 1, 2, ... without a gap, over the collection's life
  std::string_view string_id = {};  // collections with string ids
  int64_t int_id = 0;               // collections with int64 ids
  uint64_t version = 0;             // of the client; 0: none

  // kUpsert:
  int32_t num_tokens = 0;
  float scale = 0;             // i8
  std::string_view rows = {};  // [num_tokens, dim] in the collection's storage type, packed
  std::string_view payload = {};
};

// Appends the record's value as the log stores it. The sequence is the key and not in it.
void AppendRecordValue(const LogRecord& record, IdType id_type, std::string* value);

// Appends all of the value that stands before the rows; rows and payload follow it, in this order.
void AppendRecordHead(const LogRecord& record, IdType id_type, std::string* value);

// Takes a value apart; views of the result point into `value`. DATA_LOSS, which names the sequence and what was
// expected, for bytes that AppendRecordValue of this format did not make, such as rows that are not num_tokens x
// row_bytes.
absl::StatusOr<LogRecord> ParseRecordValue(uint64_t sequence, std::string_view value, IdType id_type,
                                           int64_t row_bytes);

}  // namespace maxsim::collection
