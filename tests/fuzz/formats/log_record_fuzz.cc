// Fuzzes a record of a live collection's log. An accepted record must be within the limits, and must have the same
// bytes when it is written again. The first byte of the input chooses the type of ids and the row size.
#include <cstdint>
#include <memory>
#include <string>

#include "collection/log/log_record.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using collection::IdType;
using collection::LogRecord;

void FuzzLogRecord(std::string_view input) {
  if (input.empty()) return;
  const IdType id_type = (input[0] & 1) != 0 ? IdType::kInt64 : IdType::kString;
  const int64_t row_bytes = (input[0] & 2) != 0 ? 8 : 256;
  // The copy has exactly the size of the value, so that the sanitizer reports reads past its end.
  const std::unique_ptr<char[]> bytes(new char[input.size() - 1]);
  input.substr(1).copy(bytes.get(), input.size() - 1);
  const std::string_view value(bytes.get(), input.size() - 1);
  const absl::StatusOr<LogRecord> record = collection::ParseRecordValue(5, value, id_type, row_bytes);
  if (!record.ok()) return RequireRefusal(record.status());
  Require(record->sequence == 5, "the sequence is the key's");
  if (id_type == IdType::kString && record->kind != LogRecord::Kind::kSkipped) {
    Require(!record->string_id.empty() && static_cast<int64_t>(record->string_id.size()) <= kMaxIdBytes &&
                IsUtf8(record->string_id),
            "an id is in range");
  }
  if (record->kind == LogRecord::Kind::kUpsert) {
    Require(record->num_tokens >= 1 && record->num_tokens <= kMaxDocumentTokens, "the tokens are in range");
    Require(static_cast<int64_t>(record->rows.size()) == record->num_tokens * row_bytes, "the rows are the tokens");
    Require(static_cast<int64_t>(record->payload.size()) <= collection::kMaxPayloadBytes && IsUtf8(record->payload),
            "the payload is in range");
    Require(record->scale >= 0 && record->scale <= collection::kMaxScale, "the scale is in range");
  }
  std::string again;
  AppendRecordValue(*record, id_type, &again);
  Require(again == value, "what is read is what was written");
}

const Registration kLogRecordTarget("log_record", &FuzzLogRecord);

}  // namespace
}  // namespace maxsim::fuzz
