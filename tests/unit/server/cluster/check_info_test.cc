// Tests that a router refuses GetInfo answers of servers that cannot be true.
#include "server/cluster/groups/check_info.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/router_fixture.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

std::string FieldAfter(const std::function<void(v1::CollectionInfo&)>& change) {
  v1::GetInfoResponse answer;
  *answer.add_collections() = InfoOf("a", 1, collection::PartitionOf(0, 2));
  *answer.add_collections() = InfoOf("b", 1, {});
  change(*answer.mutable_collections(0));
  const std::optional<AnswerFault> fault = CheckInfoAnswer(answer);
  return fault.has_value() ? fault->field : "";
}

TEST(CheckInfoTest, ACollectionThatCannotBeIsRefused) {
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo&) {}), "");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.set_name("../x"); }), "name");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.set_name("b"); }), "name");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.mutable_partition()->set_end_slot(4096); }), "");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.mutable_partition()->set_end_slot(4097); }), "partition");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.mutable_partition()->set_end_slot(0); }), "partition");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.mutable_partition()->set_first_slot(3u << 30); }),
            "partition");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) {
              *info.mutable_live()->mutable_layout() = LayoutOf(1, {{"g0", {0, 100}}, {"g1", {100, 4096}}});
            }),
            "");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) {
              *info.mutable_live()->mutable_layout() = LayoutOf(1, {{"g0", {0, 100}}, {"g1", {101, 4096}}});
            }),
            "layout");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.set_dim(0); }), "dim");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.set_dim(4097); }), "dim");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.set_storage(static_cast<v1::DataType>(9)); }), "storage");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) { info.clear_id_type(); }), "id_type");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) {
              info.set_loaded_at_unix_seconds(std::numeric_limits<double>::infinity());
            }),
            "loaded_at_unix_seconds");
  EXPECT_EQ(FieldAfter([](v1::CollectionInfo& info) {
              info.clear_dim();
              info.clear_storage();
              info.set_generation(0);
            }),
            "")
      << "a collection that loads has no form yet";
}

TEST(CheckInfoTest, AZoneIsANameOrNothing) {
  const auto field = [](const std::string& zone) {
    v1::GetInfoResponse answer;
    answer.set_zone(zone);
    const std::optional<AnswerFault> fault = CheckInfoAnswer(answer);
    return std::string(fault.has_value() ? fault->field : "");
  };
  for (const std::string& zone : {std::string(), std::string("eu-west-1a"), std::string(64, 'z')}) {
    EXPECT_EQ(field(zone), "") << zone;
  }
  for (const std::string& zone : {std::string("a b"), std::string("a\n"), std::string(65, 'z')}) {
    EXPECT_EQ(field(zone), "zone") << zone;
  }
}

TEST(CheckInfoTest, AnAnswerOfTooManyBytesIsRefused) {
  v1::GetInfoResponse answer;
  answer.set_version(std::string(kMaxInfoBytes, 'x'));
  EXPECT_TRUE(CheckInfoAnswer(answer).has_value());
}

TEST(CheckInfoTest, ARouterIsNoReplica) {
  v1::GetInfoResponse answer;
  EXPECT_FALSE(CheckInfoAnswer(answer).has_value());
  answer.add_groups()->set_name("g0");
  const std::optional<AnswerFault> fault = CheckInfoAnswer(answer);
  ASSERT_TRUE(fault.has_value());
  EXPECT_STREQ(fault->field, "groups");
  EXPECT_THAT(fault->message, HasSubstr("it is a router"));
}

TEST(CheckInfoTest, AChangeOfAnotherCollectionIsRefused) {
  v1::CollectionInfo answered;
  answered.set_name("c");
  EXPECT_FALSE(CheckChangedCollection("c", answered).has_value());
  for (const char* name : {"", "d", "C", "\xff"}) {
    answered.set_name(name);
    const std::optional<AnswerFault> fault = CheckChangedCollection("c", answered);
    ASSERT_TRUE(fault.has_value()) << name;
    EXPECT_STREQ(fault->field, "collection");
    EXPECT_TRUE(IsUtf8(fault->message));
  }
}

TEST(CheckInfoTest, ASnapshotHasASequenceThatTheReplicaCanHaveReached) {
  constexpr auto kMax = static_cast<uint64_t>(collection::kMaxLogSequence);
  const auto field = [](uint64_t least, uint64_t sequence) {
    v1::SnapshotCollectionResponse answer;
    answer.set_sequence(sequence);
    const std::optional<AnswerFault> fault = CheckSnapshotAnswer(least, answer);
    return std::string(fault.has_value() ? fault->field : "");
  };
  for (const auto& [least, sequence] : std::vector<std::pair<uint64_t, uint64_t>>{{0, 0}, {7, 7}, {7, 8}, {7, kMax}}) {
    EXPECT_EQ(field(least, sequence), "") << sequence;
  }
  for (const auto& [least, sequence] : std::vector<std::pair<uint64_t, uint64_t>>{
           {1, 0}, {7, 6}, {0, kMax + 1}, {0, std::numeric_limits<uint64_t>::max()}}) {
    EXPECT_EQ(field(least, sequence), "sequence") << sequence;
  }
}

TEST(CheckInfoTest, ALayoutIsTheOneThatWasSetWithALaterRevision) {
  v1::SetLayoutRequest request;
  request.set_expected_revision(7);
  v1::SlotOwner& owner = *request.add_owners();
  owner.set_group("g0");
  owner.mutable_slots()->set_end_slot(4096);
  v1::SetLayoutResponse right;
  right.mutable_layout()->set_revision(8);
  *right.mutable_layout()->mutable_owners() = request.owners();
  EXPECT_FALSE(CheckLayoutAnswer(request, right).has_value());
  std::vector<v1::SetLayoutResponse> wrong(5, right);
  wrong[0].mutable_layout()->set_revision(7);
  wrong[1].clear_layout();
  wrong[2].mutable_layout()->mutable_owners(0)->set_group("g1");
  wrong[3].mutable_layout()->mutable_owners(0)->mutable_slots()->set_end_slot(4095);
  wrong[4].mutable_layout()->add_owners();
  for (const v1::SetLayoutResponse& answer : wrong) {
    const std::optional<AnswerFault> fault = CheckLayoutAnswer(request, answer);
    ASSERT_TRUE(fault.has_value()) << answer.ShortDebugString();
    EXPECT_STREQ(fault->field, "layout");
  }
}

class RouterInfoTest : public RouterTest {};

TEST_F(RouterInfoTest, AReplicaThatSaysWhatCannotBeDoesNotAnswer) {
  Start();
  v1::CollectionInfo wrong = replica(0, 0).said();
  wrong.mutable_partition()->set_end_slot(1u << 31);
  replica(0, 0).Say(wrong);
  ASSERT_TRUE(Eventually([&] { return !seen(0, 0)->poll_status().ok(); }));
  EXPECT_THAT(std::string(seen(0, 0)->poll_status().message()), HasSubstr("collections[0].partition is 0 to"));
  membership_->Refresh();
  const auto collection = membership_->view()->Find("c");
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ((*collection)->parts[0].target.replicas.size(), 1);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_group_bad_answers_total{field=\"partition\",group=\"g0\"} "));
}

}  // namespace
}  // namespace maxsim::cluster
