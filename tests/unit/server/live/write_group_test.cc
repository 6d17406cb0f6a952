#include "server/live/local/write_group.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

class WriteGroupTest : public testing::Test {
 protected:
  WriteGroup Make(WriteGroup::Numbering numbering = WriteGroup::Numbering::kOfThoseThatTakePlace) {
    return WriteGroup(collection::IdType::kString, 10,
                      {.holds = [this](const collection::LogRecord& record) { return held_.contains(Id(record)); },
                       .version_of = [this](const collection::LogRecord& record, uint64_t) -> absl::StatusOr<uint64_t> {
                         const auto found = held_.find(Id(record));
                         return found == held_.end() ? 0 : found->second;
                       }},
                      numbering);
  }
  static std::string Id(const collection::LogRecord& record) { return std::string(record.string_id); }
  static std::string OutcomesOf(const absl::StatusOr<WriteGroup::Decision>& decision) {
    return Outcomes({.results = decision->results, .sequence = 0});
  }

  std::map<std::string, uint64_t> held_ = {{"old", 3}};  // id to version
};

TEST_F(WriteGroupTest, KnowsWhatTheCallsBeforeWrote) {
  WriteGroup group = Make();
  const auto first = List(Upsert("new", 1, 5), Delete("old"));
  const auto second = List(Upsert("new", 1, 5), Upsert("new", 1, 6), Delete("old"), Upsert("old", 1, 1));
  EXPECT_EQ(OutcomesOf(group.Decide(first)), "AA");
  group.Keep();
  const auto decision = group.Decide(second);
  EXPECT_EQ(OutcomesOf(decision), "SANA");
  ASSERT_EQ(decision->records.size(), 2u);
  EXPECT_EQ(decision->records[0].sequence, 13u);
  EXPECT_EQ(decision->records[1].sequence, 14u);
  group.Keep();
  EXPECT_EQ(group.last_sequence(), 14u);
}

TEST_F(WriteGroupTest, ForgetsACallThatIsDropped) {
  WriteGroup group = Make();
  const auto first = List(Upsert("new", 1, 5), Delete("old"));
  const auto second = List(Upsert("new", 1, 4), Delete("old", 3), Delete("old"));
  EXPECT_EQ(OutcomesOf(group.Decide(first)), "AA");
  group.Drop();
  EXPECT_EQ(group.last_sequence(), 10u);
  const auto decision = group.Decide(second);
  EXPECT_EQ(OutcomesOf(decision), "ASA");
  EXPECT_EQ(decision->records.front().sequence, 11u);
}

TEST_F(WriteGroupTest, GivesEveryMessageOfAStreamItsSequence) {
  WriteGroup group = Make(WriteGroup::Numbering::kOfAll);
  auto writes = List(Upsert("old", 1, 3), Delete("none"), Upsert("new", 1), Upsert("x", 1), Delete("none", 9));
  writes[3] = store::Write();
  writes[3].kind = collection::LogRecord::Kind::kSkipped;
  writes[3].skip_reason = collection::SkipReason::kUnreadable;
  const auto decision = group.Decide(writes);
  EXPECT_EQ(OutcomesOf(decision), "SNAAN");
  ASSERT_EQ(decision->records.size(), 5u);
  for (size_t idx = 0; idx < 5; ++idx) EXPECT_EQ(decision->records[idx].sequence, 11 + idx);
  EXPECT_EQ(decision->records[0].skip_reason, collection::SkipReason::kStale);
  EXPECT_EQ(decision->records[1].skip_reason, collection::SkipReason::kNotFound);
  EXPECT_EQ(decision->records[2].kind, collection::LogRecord::Kind::kUpsert);
  EXPECT_EQ(decision->records[3].skip_reason, collection::SkipReason::kUnreadable);
  EXPECT_EQ(decision->records[4].kind, collection::LogRecord::Kind::kDelete);
  EXPECT_EQ(decision->results[0].sequence, 0u);
  EXPECT_EQ(decision->results[4].sequence, 15u);
}

TEST_F(WriteGroupTest, ForgetsDeletedIdsAsIfEveryWriteWereItsOwnGroup) {
  std::vector<uint64_t> pending;
  WriteGroup group(
      collection::IdType::kString, 10,
      {.holds = [](const collection::LogRecord&) { return false; },
       .version_of = [&](const collection::LogRecord&, uint64_t pending_bytes) -> absl::StatusOr<uint64_t> {
         pending.push_back(pending_bytes);
         return 0;
       },
       .remembered_bytes = 130});
  // Each delete adds 65 bytes.
  const auto first = List(Delete("a", 9), Delete("b", 9));
  const auto dropped = List(Delete("x", 9));
  const auto second = List(Delete("c", 9), Upsert("a", 1, 8), Delete("d", 9), Upsert("a", 1, 8), Upsert("b", 1, 8));
  EXPECT_EQ(OutcomesOf(group.Decide(first)), "NN");
  group.Keep();
  EXPECT_EQ(OutcomesOf(group.Decide(dropped)), "N");
  group.Drop();
  EXPECT_EQ(OutcomesOf(group.Decide(second)), "NSNAS");
  EXPECT_EQ(pending, (std::vector<uint64_t>{0, 65, 130, 130, 195}));
}

TEST_F(WriteGroupTest, TellsIntegerIdsApart) {
  WriteGroup group(
      collection::IdType::kInt64, 0,
      {.holds = [](const collection::LogRecord& record) { return record.int_id == 7; },
       .version_of = [](const collection::LogRecord&, uint64_t) -> absl::StatusOr<uint64_t> { return 0; }});
  std::vector<store::Write> writes(3);
  for (store::Write& write : writes) write.kind = collection::LogRecord::Kind::kDelete;
  writes[0].int_id = 7;
  writes[1].int_id = 8;
  writes[2].int_id = 7;
  EXPECT_EQ(OutcomesOf(group.Decide(writes)), "ANN");
}

}  // namespace
}  // namespace maxsim::live
