#include "collection/log/log_record.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/text.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

// The first byte of every value. A value with another first byte was written by a later version.
constexpr uint8_t kRecordFormat = 1;

static_assert(kMaxIdBytes <= UINT16_MAX);

// Numbers are little-endian, as in shards.
template <typename T>
void AppendNumber(T number, std::string* value) {
  static_assert(std::is_trivially_copyable_v<T>);
  value->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Takes numbers and bytes from the front of a value.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  template <typename T>
  bool Take(T* number) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(number, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  bool Take(size_t count, std::string_view* bytes) {
    if (rest_.size() < count) return false;
    *bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return true;
  }
  size_t size() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

template <typename... Args>
absl::Status Damaged(uint64_t sequence, const Args&... args) {
  return absl::DataLossError(Cat("the write with sequence ", sequence, ": ", args...));
}

absl::Status TakeId(uint64_t sequence, IdType id_type, Reader& reader, LogRecord& record) {
  if (id_type == IdType::kInt64) {
    return reader.Take(&record.int_id) ? absl::OkStatus() : Damaged(sequence, "ends inside its id");
  }
  uint16_t size = 0;
  if (!reader.Take(&size) || !reader.Take(size, &record.string_id)) return Damaged(sequence, "ends inside its id");
  if (size == 0 || size > kMaxIdBytes) {
    return Damaged(sequence, "an id of ", size, " bytes; must be 1 to ", kMaxIdBytes);
  }
  return IsUtf8(record.string_id) ? absl::OkStatus() : Damaged(sequence, "its id is not UTF-8");
}

absl::Status TakeDocument(uint64_t sequence, int64_t row_bytes, Reader& reader, LogRecord& record) {
  uint32_t num_tokens = 0;
  uint32_t payload_bytes = 0;
  if (!reader.Take(&num_tokens) || !reader.Take(&record.scale) || !reader.Take(&payload_bytes)) {
    return Damaged(sequence, "ends before its rows");
  }
  if (num_tokens < 1 || num_tokens > kMaxDocumentTokens) {
    return Damaged(sequence, num_tokens, " tokens; must be 1 to ", kMaxDocumentTokens);
  }
  if (payload_bytes > kMaxPayloadBytes) {
    return Damaged(sequence, "a payload of ", payload_bytes, " bytes, the limit is ", kMaxPayloadBytes);
  }
  if (!(record.scale >= 0 && record.scale <= kMaxScale)) {
    return Damaged(sequence, "scale: ", record.scale, " is not in 0 .. ", kMaxScale);
  }
  record.num_tokens = static_cast<int32_t>(num_tokens);
  // The product cannot overflow: there are at most 2^16 tokens of at most 2^14 bytes each.
  const size_t wanted = num_tokens * static_cast<size_t>(row_bytes);
  const size_t size = reader.size();
  if (size != wanted + payload_bytes) {
    return Damaged(sequence, size, " bytes of rows and payload, expected ", num_tokens, " rows of ", row_bytes,
                   " bytes and a payload of ", payload_bytes);
  }
  reader.Take(wanted, &record.rows);
  reader.Take(payload_bytes, &record.payload);
  if (!IsUtf8(record.payload)) return Damaged(sequence, "its payload is not UTF-8");
  return absl::OkStatus();
}

absl::Status TakeSkipReason(uint64_t sequence, Reader& reader, LogRecord& record) {
  uint8_t reason = 0;
  if (!reader.Take(&reason)) return Damaged(sequence, "ends before the reason why it is skipped");
  if (reason < static_cast<uint8_t>(SkipReason::kOtherPartition) ||
      reason > static_cast<uint8_t>(SkipReason::kUnreadable)) {
    return Damaged(sequence, "is skipped for the reason ", int{reason}, ", expected 1 .. 4");
  }
  record.skip_reason = static_cast<SkipReason>(reason);
  if (reader.size() != 0) return Damaged(sequence, reader.size(), " bytes after the reason why it is skipped");
  return absl::OkStatus();
}

}  // namespace

void AppendRecordHead(const LogRecord& record, IdType id_type, std::string* value) {
  AppendNumber(kRecordFormat, value);
  AppendNumber(static_cast<uint8_t>(record.kind), value);
  if (record.kind == LogRecord::Kind::kSkipped) {
    AppendNumber(static_cast<uint8_t>(record.skip_reason), value);
    return;
  }
  AppendNumber(record.version, value);
  if (id_type == IdType::kInt64) {
    AppendNumber(record.int_id, value);
  } else {
    AppendNumber(static_cast<uint16_t>(record.string_id.size()), value);
    value->append(record.string_id);
  }
  if (record.kind == LogRecord::Kind::kDelete) return;
  AppendNumber(static_cast<uint32_t>(record.num_tokens), value);
  AppendNumber(record.scale, value);
  AppendNumber(static_cast<uint32_t>(record.payload.size()), value);
}

void AppendRecordValue(const LogRecord& record, IdType id_type, std::string* value) {
  AppendRecordHead(record, id_type, value);
  if (record.kind != LogRecord::Kind::kUpsert) return;
  value->append(record.rows);
  value->append(record.payload);
}

absl::StatusOr<LogRecord> ParseRecordValue(uint64_t sequence, std::string_view value, IdType id_type,
                                           int64_t row_bytes) {
  Reader reader(value);
  uint8_t format = 0;
  uint8_t kind = 0;
  LogRecord record;
  record.sequence = sequence;
  if (!reader.Take(&format)) return Damaged(sequence, "is empty");
  if (format != kRecordFormat) {
    return Damaged(sequence, "format ", int{format}, "; this version reads ", int{kRecordFormat});
  }
  if (!reader.Take(&kind)) return Damaged(sequence, "ends before its id");
  if (kind < static_cast<uint8_t>(LogRecord::Kind::kUpsert) || kind > static_cast<uint8_t>(LogRecord::Kind::kSkipped)) {
    return Damaged(sequence, "kind ", int{kind}, ", expected 1 (upsert), 2 (delete) or 3 (skipped)");
  }
  record.kind = static_cast<LogRecord::Kind>(kind);
  if (record.kind == LogRecord::Kind::kSkipped) {
    if (absl::Status status = TakeSkipReason(sequence, reader, record); !status.ok()) return status;
    return record;
  }
  if (!reader.Take(&record.version)) return Damaged(sequence, "ends before its id");
  if (absl::Status status = TakeId(sequence, id_type, reader, record); !status.ok()) return status;
  if (record.kind == LogRecord::Kind::kUpsert) {
    if (absl::Status status = TakeDocument(sequence, row_bytes, reader, record); !status.ok()) return status;
  } else if (reader.size() != 0) {
    return Damaged(sequence, reader.size(), " bytes after the id of a delete");
  }
  return record;
}

}  // namespace maxsim::collection
