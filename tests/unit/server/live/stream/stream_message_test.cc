#include "server/live/stream/stream_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "collection/log/log_record.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using collection::SkipReason;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = collection::LogRecord::Kind;

MessageRules RulesOf(collection::IdType id_type = collection::IdType::kString) {
  return {.format = {.id_type = id_type, .storage = ScalarType::kF16, .dim = kDim, .rotation_seed = 0}, .slots = {}};
}

store::Write Decode(const std::string& message, const MessageRules& rules, std::string* problem) {
  return DecodeMessage(7, message, rules, problem);
}

TEST(StreamMessage, ComesBackAsItWasWritten) {
  const MessageRules rules = RulesOf();
  std::string problem;
  const store::Write upsert = Upsert("id", 3, 9);
  const store::Write again = Decode(EncodeMessage(upsert, rules), rules, &problem);
  EXPECT_THAT(problem, IsEmpty());
  EXPECT_EQ(again.kind, Kind::kUpsert);
  EXPECT_EQ(again.string_id, "id");
  EXPECT_EQ(again.version, 9u);
  EXPECT_EQ(again.num_tokens, upsert.num_tokens);
  EXPECT_EQ(again.rows, upsert.rows);
  EXPECT_EQ(again.payload, upsert.payload);
  const store::Write deleted = Decode(EncodeMessage(Delete("id", 4), rules), rules, &problem);
  EXPECT_EQ(deleted.kind, Kind::kDelete);
  EXPECT_EQ(deleted.version, 4u);
  const MessageRules ints = RulesOf(collection::IdType::kInt64);
  store::Write of_int = Delete("");
  of_int.int_id = -5;
  EXPECT_EQ(Decode(EncodeMessage(of_int, ints), ints, &problem).int_id, -5);
}

TEST(StreamMessage, ThatIsCutOrChangedAnywhereIsUnreadable) {
  const MessageRules rules = RulesOf();
  const std::string message = EncodeMessage(Upsert("id", 3), rules);
  std::string problem;
  for (size_t size = 0; size < message.size(); ++size) {
    const store::Write write = Decode(message.substr(0, size), rules, &problem);
    EXPECT_EQ(write.kind, Kind::kSkipped) << size;
    EXPECT_EQ(write.skip_reason, SkipReason::kUnreadable) << size;
    EXPECT_FALSE(problem.empty()) << size;
  }
  for (size_t at = 0; at < message.size(); ++at) {
    std::string changed = message;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_EQ(Decode(changed, rules, &problem).kind, Kind::kSkipped) << at;
  }
  EXPECT_EQ(Decode(message + "x", rules, &problem).kind, Kind::kSkipped);
}

TEST(StreamMessage, OfAnotherFormatIsUnreadableAndNamed) {
  MessageRules other = RulesOf();
  other.format.dim = kDim + 1;
  std::string problem;
  const store::Write write = Decode(EncodeMessage(Delete("id"), other), RulesOf(), &problem);
  EXPECT_EQ(write.skip_reason, SkipReason::kUnreadable);
  EXPECT_THAT(problem, HasSubstr("string ids, f16, dimension 8"));
}

TEST(StreamMessage, OfALaterVersionIsToldFromADamagedOne) {
  const std::string message = EncodeMessage(Upsert("id", 3), RulesOf());
  EXPECT_EQ(LaterVersionOf(message), std::nullopt);
  for (const int version : {0, 2, 3, 255}) {
    std::string other = message;
    other[0] = static_cast<char>(version);  // which the checksum does not cover
    EXPECT_EQ(LaterVersionOf(other), version == 0 ? std::nullopt : std::optional<int>(version));
    std::string problem;
    EXPECT_EQ(Decode(other, RulesOf(), &problem).skip_reason, SkipReason::kUnreadable);
    EXPECT_EQ(problem, "version " + std::to_string(version) + "; this version reads 1");
    other.back() = static_cast<char>(other.back() ^ 1);
    EXPECT_EQ(LaterVersionOf(other), std::nullopt) << "its checksum is wrong";
  }
  for (size_t size = 0; size < 9; ++size) EXPECT_EQ(LaterVersionOf(std::string(size, '\2')), std::nullopt) << size;
}

TEST(StreamMessage, WithAValueThatNoScoreMayMeetIsUnreadable) {
  const MessageRules rules = RulesOf();
  store::Write infinite = Upsert("id", 3);
  infinite.rows[1] = std::byte{0x7c};  // FP16 infinity
  infinite.rows[0] = std::byte{0};
  std::string problem;
  EXPECT_EQ(Decode(EncodeMessage(infinite, rules), rules, &problem).skip_reason, SkipReason::kUnreadable);
  EXPECT_THAT(problem, HasSubstr("token 0, column 0"));
}

TEST(StreamMessage, WithAPayloadThatDoesNotFitTheFieldsIsUnreadable) {
  MessageRules rules = RulesOf();
  rules.fields = *collection::ParseFields("value:integer");
  std::string problem;
  store::Write upsert = Upsert("id", 3);
  EXPECT_EQ(Decode(EncodeMessage(upsert, rules), rules, &problem).kind, Kind::kUpsert) << problem;
  upsert.payload = R"({"value":"three"})";
  const store::Write write = Decode(EncodeMessage(upsert, rules), rules, &problem);
  EXPECT_EQ(write.skip_reason, SkipReason::kUnreadable);
  EXPECT_THAT(problem, HasSubstr("payload: field \"value\": the value is \"three\""));
  upsert.payload.clear();
  EXPECT_EQ(Decode(EncodeMessage(upsert, rules), rules, &problem).kind, Kind::kUpsert) << problem;
}

TEST(StreamMessage, OfACollectionWithOtherFieldsIsUnreadableAndNamed) {
  MessageRules rules = RulesOf();
  rules.fields = *collection::ParseFields("value:integer");
  std::string problem;
  EXPECT_EQ(Decode(EncodeMessage(Upsert("id", 3), RulesOf()), rules, &problem).skip_reason, SkipReason::kUnreadable);
  EXPECT_THAT(problem, HasSubstr("f16, dimension 8, fields value:integer"));
}

TEST(StreamMessage, OfOtherSlotsIsSkippedWithoutAProblem) {
  MessageRules rules = RulesOf();
  const std::string message = EncodeMessage(Upsert("id", 3), rules);
  const int32_t slot = collection::SlotOf(std::string_view("id"));
  std::string problem;
  rules.slots = {slot, slot + 1};
  EXPECT_EQ(Decode(message, rules, &problem).kind, Kind::kUpsert);
  rules.slots = {slot + 1, collection::kNumSlots};
  const store::Write write = Decode(message, rules, &problem);
  EXPECT_EQ(write.kind, Kind::kSkipped);
  EXPECT_EQ(write.skip_reason, SkipReason::kOtherPartition);
  EXPECT_THAT(problem, IsEmpty());
}

}  // namespace
}  // namespace maxsim::live
