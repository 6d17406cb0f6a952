// Tests which requests to a part name the part's slots.
#include "server/cluster/parts/restriction.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collection/filters/filter.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/cluster/parts/group_members.h"
#include "server/cluster/parts/split.h"
#include "server/service/selection/filter_message.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::Filter InSlots(uint32_t first, uint32_t end) {
  v1::Filter filter;
  filter.mutable_in_slots()->set_first_slot(first);
  filter.mutable_in_slots()->set_end_slot(end);
  return filter;
}

v1::Filter HasOwner() {
  v1::Filter filter;
  filter.set_exists("owner");
  return filter;
}

v1::Filter Both(const v1::Filter& one, const v1::Filter& other) {
  v1::Filter both;
  *both.mutable_all_of()->add_filters() = one;
  *both.mutable_all_of()->add_filters() = other;
  return both;
}

// Returns `visible` of a count request to a part of the slots 10 .. 19.
v1::Filter Restricted(const v1::Filter* visible, bool is_restricted = true) {
  const CollectionView::Part part{.target = {}, .slots = {10, 20}, .is_restricted = is_restricted};
  v1::CountRequest request;
  if (visible != nullptr) *request.mutable_visible() = *visible;
  RestrictToSlots(part, request);
  EXPECT_EQ(request.has_visible(), visible != nullptr || is_restricted);
  return request.visible();
}

TEST(RestrictionTest, TheSlotsAreAddedToWhatIsVisible) {
  EXPECT_TRUE(MessageDifferencer::Equals(Restricted(nullptr), InSlots(10, 20)));
  const v1::Filter owner = HasOwner();
  EXPECT_TRUE(MessageDifferencer::Equals(Restricted(&owner), Both(owner, InSlots(10, 20))));
  const v1::Filter both = Both(owner, owner);
  EXPECT_TRUE(MessageDifferencer::Equals(Restricted(&both, /*is_restricted=*/false), both));
  EXPECT_TRUE(MessageDifferencer::Equals(Restricted(&both), Both(both, InSlots(10, 20))));
}

// Filters of clients have the same limits at a router as at one server.
TEST(RestrictionTest, TheAddedNodesDoNotCount) {
  for (const bool is_conjunction : {false, true}) {
    v1::Filter deep;
    v1::Filter* inner = &deep;
    for (int level = 1; level < collection::kMaxFilterDepth; ++level) {
      inner = is_conjunction ? inner->mutable_all_of()->add_filters() : inner->mutable_negation();
    }
    inner->set_exists("a");
    EXPECT_TRUE(service::FilterOf(deep).ok());
    EXPECT_TRUE(service::FilterOf(Restricted(&deep)).ok()) << service::FilterOf(Restricted(&deep)).status();
    inner->mutable_negation()->set_exists("a");
    EXPECT_FALSE(service::FilterOf(deep).ok());
    EXPECT_EQ(service::FilterOf(Restricted(&deep)).status(), service::FilterOf(deep).status());
    v1::Filter many;
    v1::FilterList& members = *(is_conjunction ? many.mutable_all_of() : many.mutable_any_of());
    for (size_t idx = 1; idx < collection::kMaxFilterNodes; ++idx) members.add_filters()->set_exists("a");
    EXPECT_TRUE(service::FilterOf(many).ok());
    EXPECT_TRUE(service::FilterOf(Restricted(&many)).ok()) << service::FilterOf(Restricted(&many)).status();
    members.add_filters()->set_exists("a");
    EXPECT_FALSE(service::FilterOf(Restricted(&many)).ok());
  }
}

// Two groups, whose servers all hold everything.
class RestrictedSplitTest : public testing::Test {
 protected:
  RestrictedSplitTest() {
    const v1::SlotLayout layout = LayoutOf(1, {{"g0", {0, 2048}}, {"g1", {2048, 4096}}});
    const auto groups = MakeGroups(2);
    for (const std::shared_ptr<Group>& group : groups) Say(*group->replicas()[0], {LiveInfoOf({}, layout)});
    collection_ = *View::Of(groups)->Find("c");
    request_.set_collection("c");
    request_.set_top_k(10);
    request_.add_queries()->mutable_tokens()->set_num_tokens(1);
  }

  void ListIds(v1::Candidates& candidates) {
    for (int i = 0; i < 20; ++i) candidates.mutable_string_ids()->add_ids(absl::StrCat("doc-", i));
  }

  SplitRequest Split() { return *SplitRerank(request_, collection_.get(), limits_, 0); }

  std::shared_ptr<const CollectionView> collection_;
  service::RequestLimits limits_;
  v1::RerankRequest request_;
};

TEST_F(RestrictedSplitTest, AQueryOfTheWholeCollectionNamesTheSlotsOfEachPart) {
  request_.mutable_candidates()->mutable_whole_collection();
  const SplitRequest split = Split();
  ASSERT_EQ(split.parts.size(), 2);
  EXPECT_TRUE(MessageDifferencer::Equals(split.parts[0].request->visible(), InSlots(0, 2048)));
  EXPECT_TRUE(MessageDifferencer::Equals(split.parts[1].request->visible(), InSlots(2048, 4096)));
  for (const PartRequest& part : split.parts) {
    EXPECT_FALSE(part.has_visible);
    EXPECT_FALSE(AskedPartOf(part, collection_.get()).has_visible);
  }
}

TEST_F(RestrictedSplitTest, WhatTheClientMaySeeStays) {
  request_.mutable_candidates()->mutable_whole_collection();
  *request_.mutable_visible() = HasOwner();
  const SplitRequest split = Split();
  EXPECT_TRUE(MessageDifferencer::Equals(split.parts[1].request->visible(), Both(HasOwner(), InSlots(2048, 4096))));
  EXPECT_TRUE(split.parts[1].has_visible);
  EXPECT_TRUE(AskedPartOf(split.parts[1], collection_.get()).has_visible);
  EXPECT_TRUE(MessageDifferencer::Equals(request_.visible(), HasOwner())) << "the request can be split again";
}

TEST_F(RestrictedSplitTest, ListsOfIdsNameTheSlotsOfEachPart) {
  ListIds(*request_.mutable_candidates());
  for (const PartRequest& part : Split().parts) EXPECT_TRUE(part.request->visible().has_in_slots());
}

TEST_F(RestrictedSplitTest, InlineDocumentsNeedNoSlots) {
  request_.mutable_candidates()->mutable_inline_documents()->add_documents()->set_num_tokens(1);
  for (const PartRequest& part : Split().parts) EXPECT_FALSE(part.request->has_visible());
}

TEST_F(RestrictedSplitTest, AListAndAQueryOfTheWholeCollectionNameThemOnce) {
  ListIds(*request_.mutable_candidates());
  v1::Query& whole = *request_.add_queries();
  whole.mutable_tokens()->set_num_tokens(1);
  whole.mutable_candidates()->mutable_whole_collection();
  for (const PartRequest& part : Split().parts) EXPECT_TRUE(part.request->visible().has_in_slots());
}

TEST_F(RestrictedSplitTest, AnErrorCountsTheDocumentsOfTheOwners) {
  auto counted = std::make_shared<CollectionView>(*collection_);
  counted->info.set_num_documents(7);
  collection_ = counted;
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_return_alignments(true);
  limits_.max_alignments = 1;
  EXPECT_THAT(std::string(SplitRerank(request_, collection_.get(), limits_, 0).status().message()),
              HasSubstr("asks for 7 token matches"));
}

TEST_F(RestrictedSplitTest, MembersOfGroupsAreAskedForWithTheSlots) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_top_k(1);
  request_.set_group_by("book");
  request_.set_group_size(2);
  const SplitRequest split = Split();
  std::vector<absl::StatusOr<v1::RerankResponse>> answers;
  for (int part : {0, 1}) {
    v1::RerankResponse answer;
    v1::QueryResult& result = *answer.add_results();
    result.mutable_string_ids()->add_ids(absl::StrCat("doc-", part));
    result.add_scores(static_cast<float>(part));
    result.add_positions(static_cast<uint64_t>(part));
    result.add_group_values(absl::StrCat("book-", part));
    answers.emplace_back(std::move(answer));
  }
  const std::vector<MembersRequest> missing = FindMissingMembers(split, answers);
  ASSERT_EQ(missing.size(), 1);
  EXPECT_TRUE(MessageDifferencer::Equals(missing[0].request->visible(), InSlots(0, 2048)));
}

TEST(RestrictedWritesTest, ReplicasThatNoLongerHoldTheSlotsTakeNoWrites) {
  const v1::SlotLayout layout = LayoutOf(1, {{"g0", {0, 4096}}});
  const auto groups = MakeGroups(1);
  groups[0]->SetReplicas({MakeReplica("localhost:1"), MakeReplica("localhost:2")});
  const Replicas replicas = groups[0]->replicas();
  for (const auto& replica : replicas) Say(*replica, {LiveInfoOf({}, layout)});
  const auto collection = *View::Of(groups)->Find("c");
  const CollectionView::Part& part = collection->parts[0];
  const auto takers = [&] { return ForWrites(part, "c").replicas; };
  EXPECT_EQ(takers(), replicas);
  // The reports are newer than the view.
  v1::CollectionInfo cut_off = LiveInfoOf({}, layout);
  cut_off.mutable_live()->set_error("nats.url: no answer");
  Say(*replicas[0], {cut_off});
  EXPECT_THAT(takers(), ElementsAre(replicas[1]));
  Say(*replicas[1], {LiveInfoOf({0, 4095}, layout)});
  EXPECT_THAT(takers(), ElementsAre(replicas[0])) << "its stream may be back, but slots do not come back";
  Say(*replicas[0], {LiveInfoOf({0, 4095}, layout)});
  EXPECT_THAT(takers(), IsEmpty());
}

}  // namespace
}  // namespace maxsim::cluster
