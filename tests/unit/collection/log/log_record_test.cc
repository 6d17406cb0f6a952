#include "collection/log/log_record.h"

#include <limits>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRowBytes = 16;

LogRecord Upsert(const std::string& rows, const std::string& payload) {
  LogRecord record;
  record.sequence = 7;
  record.string_id = "gamma-\xc3\xa9";
  record.version = UINT64_MAX;
  record.num_tokens = static_cast<int32_t>(rows.size() / kRowBytes);
  record.scale = 0.25F;
  record.rows = rows;
  record.payload = payload;
  return record;
}

TEST(LogRecord, ComesBackAsItWasAppended) {
  const std::string rows = MarkedRows(7, 3);
  for (const IdType id_type : {IdType::kString, IdType::kInt64}) {
    for (const std::string payload : {"", "{\"a\":1}"}) {
      LogRecord record = Upsert(rows, payload);
      if (id_type == IdType::kInt64) {
        record.string_id = {};
        record.int_id = std::numeric_limits<int64_t>::min();
      }
      std::string value;
      AppendRecordValue(record, id_type, &value);
      const absl::StatusOr<LogRecord> again = ParseRecordValue(7, value, id_type, kRowBytes);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(SameRecord(*again, record));
      record.kind = LogRecord::Kind::kDelete;
      record.num_tokens = 0;
      record.scale = 0;
      record.rows = {};
      record.payload = {};
      value.clear();
      AppendRecordValue(record, id_type, &value);
      const absl::StatusOr<LogRecord> deleted = ParseRecordValue(7, value, id_type, kRowBytes);
      ASSERT_TRUE(deleted.ok()) << deleted.status();
      EXPECT_TRUE(SameRecord(*deleted, record));
    }
  }
}

TEST(LogRecord, IsRefusedAtEveryTruncationAndWithBytesBehindIt) {
  const std::string rows = MarkedRows(7, 2);
  const std::string payload = "{}";
  for (const auto kind : {LogRecord::Kind::kUpsert, LogRecord::Kind::kDelete}) {
    LogRecord record = Upsert(rows, payload);
    record.kind = kind;
    std::string value;
    AppendRecordValue(record, IdType::kString, &value);
    for (size_t size = 0; size < value.size(); ++size) {
      const auto parsed = ParseRecordValue(7, std::string_view(value).substr(0, size), IdType::kString, kRowBytes);
      EXPECT_TRUE(absl::IsDataLoss(parsed.status())) << size << ": " << parsed.status();
      EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("sequence 7"));
    }
    EXPECT_TRUE(absl::IsDataLoss(ParseRecordValue(7, value + "x", IdType::kString, kRowBytes).status()));
  }
}

TEST(LogRecord, OfASkippedMessageHasItsReasonAndNothingElse) {
  for (const SkipReason reason :
       {SkipReason::kOtherPartition, SkipReason::kStale, SkipReason::kNotFound, SkipReason::kUnreadable}) {
    LogRecord record;
    record.kind = LogRecord::Kind::kSkipped;
    record.skip_reason = reason;
    std::string value;
    AppendRecordValue(record, IdType::kString, &value);
    EXPECT_EQ(value.size(), 3);
    const auto again = ParseRecordValue(7, value, IdType::kString, kRowBytes);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->kind, LogRecord::Kind::kSkipped);
    EXPECT_EQ(again->skip_reason, reason);
    EXPECT_EQ(again->sequence, 7);
    for (size_t size = 0; size < value.size(); ++size) {
      const auto parsed = ParseRecordValue(7, std::string_view(value).substr(0, size), IdType::kString, kRowBytes);
      EXPECT_TRUE(absl::IsDataLoss(parsed.status())) << size;
    }
    EXPECT_TRUE(absl::IsDataLoss(ParseRecordValue(7, value + "x", IdType::kString, kRowBytes).status()));
    for (const char wrong : {'\0', '\5'}) {
      value[2] = wrong;
      EXPECT_TRUE(absl::IsDataLoss(ParseRecordValue(7, value, IdType::kString, kRowBytes).status()));
    }
  }
}

TEST(LogRecord, OfALaterFormatIsRefused) {
  std::string value;
  AppendRecordValue(Upsert(MarkedRows(7, 1), ""), IdType::kString, &value);
  value[0] = 2;
  const auto parsed = ParseRecordValue(7, value, IdType::kString, kRowBytes);
  EXPECT_TRUE(absl::IsDataLoss(parsed.status()));
  EXPECT_THAT(std::string(parsed.status().message()), AllOf(HasSubstr("format 2"), HasSubstr("this version reads 1")));
}

TEST(LogRecord, NeverReadsBeyondWhatRandomBytesHold) {
  std::mt19937 random(3);
  std::string value;
  AppendRecordValue(Upsert(MarkedRows(7, 2), "{}"), IdType::kString, &value);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = value;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto parsed = ParseRecordValue(7, bytes, IdType::kString, kRowBytes);
    if (!parsed.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(parsed.status()));
      continue;
    }
    ++accepted;
    if (parsed->kind != LogRecord::Kind::kUpsert) continue;
    EXPECT_EQ(parsed->rows.size(), static_cast<size_t>(parsed->num_tokens) * kRowBytes);
    std::string again;
    AppendRecordValue(*parsed, IdType::kString, &again);
    EXPECT_EQ(again, bytes);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace maxsim::collection
