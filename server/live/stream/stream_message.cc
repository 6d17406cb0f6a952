#include "server/live/stream/stream_message.h"

#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "collection/document_line.h"
#include "collection/fields/field_reader.h"
#include "collection/log/log_record.h"
#include "kernels/scalar_type.h"
#include "server/live/local/write_group.h"

namespace maxsim::live {
namespace {

using collection::IdType;
using collection::LogRecord;
using store::Write;

constexpr size_t kChecksumOffset = 1;
constexpr size_t kFormatOffset = kChecksumOffset + sizeof(uint64_t);
constexpr size_t kRecordOffset = kFormatOffset + sizeof(uint64_t);

uint64_t HashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t NumberAt(std::string_view message, size_t offset) {
  uint64_t number = 0;
  std::memcpy(&number, message.data() + offset, sizeof(number));
  return number;
}

Write Skipped(collection::SkipReason reason) {
  Write write;
  write.kind = LogRecord::Kind::kSkipped;
  write.skip_reason = reason;
  return write;
}

Write WriteOf(const LogRecord& record) {
  Write write;
  write.kind = record.kind;
  write.string_id = record.string_id;
  write.int_id = record.int_id;
  write.version = record.version;
  write.num_tokens = record.num_tokens;
  write.scale = record.scale;
  write.rows.resize(record.rows.size());
  if (!record.rows.empty()) std::memcpy(write.rows.data(), record.rows.data(), record.rows.size());
  write.payload = record.payload;
  return write;
}

// If a value of a parsed document is wrong, returns the reason. Otherwise returns "".
std::string ProblemWith(const Write& write, const MessageRules& rules) {
  const collection::LogFormat& format = rules.format;
  if (write.kind != LogRecord::Kind::kUpsert) return "";
  const auto dim = static_cast<size_t>(format.dim);
  const size_t num_values = static_cast<size_t>(write.num_tokens) * dim;
  if (const auto index = FindUnusableElement(format.storage, write.rows.data(), num_values)) {
    return Cat("token ", *index / dim, ", column ", *index % dim, ": a value that ", Name(format.storage),
               " may not have");
  }
  if (write.payload.empty()) return "";
  absl::Status status = collection::CheckPayload(write.payload);
  if (status.ok() && !rules.fields.empty()) status = collection::FieldReader(rules.fields).Read(write.payload).status();
  return status.ok() ? "" : Cat("payload: ", ForStrCat(std::string(status.message())));
}

// Returns a text with the properties of a collection that a message's writer and its readers must agree on.
std::string DescribeForm(const MessageRules& rules) {
  std::string words = Describe(rules.format);
  if (!rules.fields.empty()) words += Cat(", fields ", collection::FormatFields(rules.fields));
  return words;
}

// If the part of the message before the record is wrong, returns the reason. Otherwise returns "".
std::string ProblemWithHead(std::string_view message, const MessageRules& rules) {
  if (message.size() < kRecordOffset) return Cat(message.size(), " bytes, fewer than ", kRecordOffset);
  if (message[0] != kMessageVersion) {
    return Cat("version ", int{static_cast<unsigned char>(message[0])}, "; this version reads ", int{kMessageVersion});
  }
  if (NumberAt(message, kChecksumOffset) != HashOf(message.substr(kFormatOffset))) return "its checksum is wrong";
  if (NumberAt(message, kFormatOffset) != HashOf(DescribeForm(rules))) {
    return Cat("it was written for another format than ", DescribeForm(rules));
  }
  return "";
}

}  // namespace

int32_t SlotOf(const Write& write, IdType id_type) {
  return id_type == IdType::kString ? collection::SlotOf(std::string_view(write.string_id))
                                    : collection::SlotOf(write.int_id);
}

std::string EncodeMessage(const Write& write, const MessageRules& rules) {
  std::string message;
  constexpr size_t kBytesBeside = 64;
  message.reserve(kRecordOffset + kBytesBeside + write.string_id.size() + write.rows.size() + write.payload.size());
  message.push_back(kMessageVersion);
  message.append(sizeof(uint64_t), '\0');
  const uint64_t format_hash = HashOf(DescribeForm(rules));
  message.append(reinterpret_cast<const char*>(&format_hash), sizeof(format_hash));
  AppendRecordValue(RecordOf(write), rules.format.id_type, &message);
  const uint64_t checksum = HashOf(std::string_view(message).substr(kFormatOffset));
  std::memcpy(message.data() + kChecksumOffset, &checksum, sizeof(checksum));
  return message;
}

Write DecodeMessage(uint64_t sequence, std::string_view message, const MessageRules& rules, std::string* problem) {
  *problem = ProblemWithHead(message, rules);
  if (!problem->empty()) return Skipped(collection::SkipReason::kUnreadable);
  const int64_t row_bytes = rules.format.dim * static_cast<int64_t>(SizeOf(rules.format.storage));
  const absl::StatusOr<LogRecord> record =
      collection::ParseRecordValue(sequence, message.substr(kRecordOffset), rules.format.id_type, row_bytes);
  if (!record.ok() || record->kind == LogRecord::Kind::kSkipped) {
    *problem = record.ok() ? "it holds no write" : std::string(record.status().message());
    return Skipped(collection::SkipReason::kUnreadable);
  }
  Write write = WriteOf(*record);
  // The slot is checked before the values, because servers of other partitions need not check values.
  if (!rules.slots.contains(SlotOf(write, rules.format.id_type))) {
    return Skipped(collection::SkipReason::kOtherPartition);
  }
  *problem = ProblemWith(write, rules);
  if (!problem->empty()) return Skipped(collection::SkipReason::kUnreadable);
  return write;
}

std::optional<int> LaterVersionOf(std::string_view message) {
  if (message.size() < kFormatOffset) return std::nullopt;
  const int version = static_cast<unsigned char>(message[0]);
  if (version <= kMessageVersion) return std::nullopt;
  if (NumberAt(message, kChecksumOffset) != HashOf(message.substr(kFormatOffset))) return std::nullopt;
  return version;
}

}  // namespace maxsim::live
