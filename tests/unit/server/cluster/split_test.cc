#include "server/cluster/parts/split.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SplitTest : public testing::Test {
 protected:
  SplitTest() : collection_(*View::Of(MakeGroups(3, 7))->Find("c")) {
    request_.set_collection("c");
    request_.set_request_id("r");
    AddQuery();
  }

  v1::Query& AddQuery() {
    v1::Query& query = *request_.add_queries();
    query.mutable_tokens()->set_num_tokens(static_cast<uint32_t>(request_.queries_size()));
    return query;
  }

  static void SetIds(v1::Candidates& candidates, int count) {
    for (int i = 0; i < count; ++i) candidates.mutable_string_ids()->add_ids(absl::StrCat("doc-", i));
  }

  absl::StatusOr<SplitRequest> Split() { return SplitRerank(request_, collection_.get(), limits_, turn_); }

  std::shared_ptr<const CollectionView> collection_;
  service::RequestLimits limits_;
  uint64_t turn_ = 0;
  v1::RerankRequest request_;
};

TEST_F(SplitTest, EachPartGetsTheFilter) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_filter_text("exists(lang)");
  auto split = Split();
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->parts.size(), 3);
  for (const PartRequest& part : split->parts) EXPECT_EQ(part.request->filter_text(), "exists(lang)");
  request_.mutable_candidates()->mutable_whole_collection();
  request_.mutable_filter()->set_exists("year");
  split = Split();
  ASSERT_TRUE(split.ok()) << split.status();
  for (const PartRequest& part : split->parts) EXPECT_EQ(part.request->filter().exists(), "year");
}

TEST_F(SplitTest, EachPartIsToldWhatIsVisibleAndWhetherToReportItsWork) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.mutable_visible()->set_exists("owner");
  request_.set_return_token_pairs(true);
  const auto split = Split();
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->parts.size(), 3);
  for (const PartRequest& part : split->parts) {
    EXPECT_EQ(part.request->visible().exists(), "owner");
    EXPECT_TRUE(part.request->return_token_pairs());
  }
}

TEST_F(SplitTest, AnErrorDoesNotTellHowManyDocumentsAreNotVisible) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_top_k(10'000);
  request_.set_return_alignments(true);
  limits_.max_alignments = 1;
  request_.mutable_visible()->set_exists("owner");
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("asks for 10000 token matches"));
}

TEST_F(SplitTest, EachIdGoesToThePartOfItsSlotInTheOrderOfTheRequest) {
  SetIds(*request_.mutable_candidates(), 100);
  const auto split = Split();
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->parts.size(), 3);
  std::set<uint32_t> seen;
  for (const PartRequest& part : split->parts) {
    EXPECT_EQ(part.request->generation(), 7);
    EXPECT_THAT(part.queries, ElementsAre(0));
    const Positions& positions = *part.positions[0];
    const auto& ids = part.request->candidates().string_ids().ids();
    ASSERT_EQ(ids.size(), static_cast<int>(positions.size()));
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    for (size_t i = 0; i < positions.size(); ++i) {
      const std::string id = absl::StrCat("doc-", positions[i]);
      EXPECT_EQ(ids[static_cast<int>(i)], id);
      EXPECT_TRUE(collection_->parts[part.part].slots.contains(collection::SlotOf(std::string_view(id))));
      EXPECT_TRUE(seen.insert(positions[i]).second);
    }
  }
  EXPECT_EQ(seen.size(), 100);
}

TEST_F(SplitTest, APartThatHoldsNoneOfTheIdsIsNotAsked) {
  SetIds(*request_.mutable_candidates(), 1);
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->parts.size(), 1);
}

TEST_F(SplitTest, AScanOfTheWholeCollectionAsksAll) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_top_k(0);
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  ASSERT_EQ(split->parts.size(), 3);
  for (const PartRequest& part : split->parts) {
    EXPECT_TRUE(part.request->candidates().has_whole_collection());
    EXPECT_EQ(part.positions[0], nullptr);
    EXPECT_EQ(part.request->top_k(), static_cast<uint32_t>(limits_.default_top_k));
  }
}

TEST_F(SplitTest, InlineDocumentsGoToOnePartEachInItsTurn) {
  for (uint64_t turn = 0; turn < 4; ++turn) {
    request_.mutable_candidates()->mutable_inline_documents()->add_documents()->set_dim(8);
    turn_ = turn;
    const auto split = Split();
    ASSERT_TRUE(split.ok());
    ASSERT_EQ(split->parts.size(), 1);
    EXPECT_EQ(split->parts[0].part, turn % 3);
    EXPECT_EQ(split->parts[0].request->candidates().inline_documents().documents_size(), 1);
    EXPECT_EQ(split->parts[0].request->generation(), 0) << "inline documents are of no generation";
    request_.clear_candidates();
  }
}

TEST_F(SplitTest, InlineDocumentsComeBackForAnotherSplit) {
  request_.mutable_candidates()->mutable_inline_documents()->add_documents()->set_dim(8);
  AddQuery().mutable_candidates()->mutable_inline_documents()->add_documents()->set_dim(9);
  AddQuery().mutable_candidates()->mutable_whole_collection();
  const v1::RerankRequest sent = request_;
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(request_.candidates().inline_documents().documents_size(), 0);
  ReturnInlineDocuments(*split, request_);
  EXPECT_EQ(request_.SerializeAsString(), sent.SerializeAsString());
}

TEST_F(SplitTest, InlineDocumentsGoToAPartThatAnswersWhereThereIsOne) {
  for (const size_t part : {0, 2}) {
    collection_->parts[part].target.replicas.front()->SetPollError(absl::UnavailableError("gone"));
  }
  for (uint64_t turn = 0; turn < 4; ++turn) {
    request_.mutable_candidates()->mutable_inline_documents()->add_documents()->set_dim(8);
    turn_ = turn;
    const auto split = Split();
    ASSERT_TRUE(split.ok());
    ASSERT_EQ(split->parts.size(), 1);
    EXPECT_EQ(split->parts[0].part, 1);
    request_.clear_candidates();
  }
}

TEST_F(SplitTest, InlineDocumentsWithoutACollectionGoToAnyGroup) {
  request_.clear_collection();
  request_.mutable_candidates()->mutable_inline_documents()->add_documents();
  const auto split = SplitRerank(request_, nullptr, limits_, 1);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->parts.size(), 1);
  EXPECT_EQ(split->parts[0].part, PartRequest::kAnyGroup);
}

TEST_F(SplitTest, QueriesOfSeveralKindsMeetInOneRequestAPart) {
  SetIds(*request_.mutable_candidates(), 50);
  AddQuery().mutable_candidates()->mutable_whole_collection();
  SetIds(*AddQuery().mutable_candidates(), 1);
  AddQuery();  // the request's
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  ASSERT_EQ(split->parts.size(), 3);
  const size_t of_first = static_cast<size_t>(
      collection_->part_of_slot[static_cast<size_t>(collection::SlotOf(std::string_view("doc-0")))]);
  for (const PartRequest& part : split->parts) {
    if (part.part == of_first) {
      EXPECT_THAT(part.queries, ElementsAre(0, 1, 2, 3));
    } else {
      EXPECT_THAT(part.queries, ElementsAre(0, 1, 3));
    }
    for (size_t i = 0; i < part.queries.size(); ++i) {
      EXPECT_EQ(part.request->queries(static_cast<int>(i)).tokens().num_tokens(),
                static_cast<uint32_t>(part.queries[i] + 1));
    }
  }
}

TEST_F(SplitTest, WhatTheWholeRequestSaysGoesToEachPartAndWhatIsDoneLastDoesNot) {
  SetIds(*request_.mutable_candidates(), 50);
  request_.set_top_k(3);
  request_.set_normalize(true);
  request_.set_missing_policy(v1::MISSING_POLICY_FAIL);
  request_.set_priority(v1::PRIORITY_HIGH);
  request_.add_payload_fields("title");
  request_.set_return_alignments(true);
  request_.mutable_queries(0)->add_weights(2);
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  for (const PartRequest& part : split->parts) {
    EXPECT_EQ(part.request->top_k(), 3);
    EXPECT_FALSE(part.request->normalize());
    EXPECT_EQ(part.request->missing_policy(), v1::MISSING_POLICY_REPORT);
    EXPECT_EQ(part.request->priority(), v1::PRIORITY_HIGH);
    EXPECT_THAT(part.request->payload_fields(), ElementsAre("title"));
    EXPECT_TRUE(part.request->return_alignments());
    EXPECT_THAT(part.request->queries(0).weights(), ElementsAre(2));
  }
}

TEST_F(SplitTest, EachPartIsAskedForAllRanksUpToTheEndOfThePage) {
  SetIds(*request_.mutable_candidates(), 50);
  request_.set_top_k(3);
  request_.set_offset(20);
  request_.set_min_score(1);
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  for (const PartRequest& part : split->parts) {
    EXPECT_EQ(part.request->top_k(), 23);
    EXPECT_EQ(part.request->offset(), 0);
    EXPECT_FALSE(part.request->has_min_score());
  }
}

TEST_F(SplitTest, EachPartIsAskedForAllGroupsUpToTheEndOfThePage) {
  SetIds(*request_.mutable_candidates(), 50);
  request_.set_top_k(3);
  request_.set_offset(20);
  request_.set_group_by("book");
  request_.set_group_size(4);
  const auto split = Split();
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->group_size, 4u);
  for (const PartRequest& part : split->parts) {
    EXPECT_EQ(part.request->top_k(), 23);
    EXPECT_EQ(part.request->group_by(), "book");
    EXPECT_EQ(part.request->group_size(), 4);
  }
}

TEST_F(SplitTest, AlignmentsCountForTheWholeRequest) {
  SetIds(*request_.mutable_candidates(), 90);
  request_.set_top_k(60);
  request_.set_return_alignments(true);
  limits_.max_alignments = 59;  // the request asks for 60 x 1 matches in all, though each part asks for fewer
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("return_alignments: asks for 60 token matches"));
  limits_.max_alignments = 60;
  EXPECT_TRUE(Split().ok());
}

TEST_F(SplitTest, ASequenceIsAskedForWhereThePartsHaveOneLog) {
  SetIds(*request_.mutable_candidates(), 50);
  request_.set_min_sequence(4);
  EXPECT_THAT(std::string(Split().status().message()),
              HasSubstr("min_sequence: is 4, but collection \"c\" is not live"));
  request_.set_generation(6);
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("min_sequence: is 4"))
      << "of two mistakes, the one that a server names";
  request_.clear_generation();
  auto with_logs = std::make_shared<CollectionView>(*collection_);
  with_logs->info.mutable_live()->set_log("local");
  collection_ = with_logs;
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("min_sequence: is 4, but the groups of collection c"));
  auto of_stream = std::make_shared<CollectionView>(*collection_);
  of_stream->info.mutable_live()->set_log(kStreamLog);
  collection_ = of_stream;
  const auto split = Split();
  ASSERT_TRUE(split.ok()) << split.status();
  for (const PartRequest& part : split->parts) EXPECT_EQ(part.request->min_sequence(), 4);
}

TEST_F(SplitTest, ACollectionOfOnePartThatIsNotLiveHasNoSequenceEither) {
  collection_ = *View::Of(MakeGroups(1, 7))->Find("c");
  SetIds(*request_.mutable_candidates(), 5);
  request_.set_min_sequence(4);
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("\"c\" is not live: it has no writes to wait for"));
}

TEST_F(SplitTest, WrongRequestsNameTheFieldOfTheClient) {
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("candidates: is not set"));
  SetIds(*request_.mutable_candidates(), 2);
  AddQuery().mutable_candidates()->mutable_int_ids()->add_ids(3);
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("queries[1].candidates.int_ids"));
  request_.mutable_queries(1)->mutable_candidates()->mutable_string_ids();
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("queries[1].candidates.string_ids.ids: has 0 ids"));
  request_.mutable_queries(1)->mutable_candidates()->mutable_string_ids()->add_ids(std::string(513, 'x'));
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("queries[1].candidates.string_ids.ids[0]: has 513"));
  request_.mutable_queries(1)->clear_candidates();
  request_.set_generation(6);
  EXPECT_THAT(std::string(Split().status().message()), HasSubstr("is of generation 7, but generation 6 was asked for"));
}

}  // namespace
}  // namespace maxsim::cluster
