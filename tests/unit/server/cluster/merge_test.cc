// Tests that the merged answers of a collection's parts equal the answer of one server with all documents.
#include "server/cluster/parts/merge.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "client/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/group_members.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/cluster/fake_answer.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kNumDocuments = 60;

class MergeTest : public testing::Test {
 protected:
  explicit MergeTest(int num_groups = 3) : collection_(*View::Of(MakeGroups(num_groups, 7))->Find("c")) {
    for (int i = 0; i < kNumDocuments; ++i) {
      documents_.push_back({absl::StrCat("doc-", i), static_cast<uint64_t>(i)});
    }
    auto counted = std::make_shared<CollectionView>(*collection_);
    for (size_t part = 0; part < counted->parts.size(); ++part) {
      counted->parts[part].num_documents = DocumentsOf(part).size();
    }
    collection_ = std::move(counted);
    request_.set_collection("c");
    request_.set_request_id("r");
    request_.set_top_k(10);
  }

  v1::Query& AddQuery(uint32_t num_tokens = 1) {
    v1::Query& query = *request_.add_queries();
    query.mutable_tokens()->set_num_tokens(num_tokens);
    return query;
  }

  void SetIds(std::vector<std::string> ids) {
    for (std::string& id : ids) request_.mutable_candidates()->mutable_string_ids()->add_ids(std::move(id));
  }

  std::vector<FakeDocument> DocumentsOf(size_t part) const {
    std::vector<FakeDocument> documents;
    for (const FakeDocument& document : documents_) {
      if (collection_->parts[part].slots.contains(collection::SlotOf(std::string_view(document.id)))) {
        documents.push_back(document);
      }
    }
    return documents;
  }

  // Splits the request, lets each part answer, and merges. Parts in `lost` give `error` instead of an answer.
  absl::StatusOr<v1::RerankResponse> Merge(const std::set<size_t>& lost = {},
                                           const absl::Status& error = absl::UnavailableError("away")) {
    v1::RerankRequest copy = request_;
    absl::StatusOr<SplitRequest> split = SplitRerank(copy, collection_.get(), limits_, 0);
    if (!split.ok()) return split.status();
    std::vector<absl::StatusOr<v1::RerankResponse>> answers;
    for (const PartRequest& part : split->parts) {
      if (lost.count(part.part) > 0) {
        answers.emplace_back(error);
      } else {
        answers.emplace_back(Answer(*part.request, DocumentsOf(part.part), 100 + part.part));
        const std::optional<AnswerFault> fault =
            CheckRerankAnswer(*part.request, AskedPartOf(part, collection_.get()), *answers.back());
        EXPECT_FALSE(fault.has_value()) << fault->message;
      }
    }
    const std::vector<MembersRequest> missing = FindMissingMembers(*split, answers);
    std::vector<absl::StatusOr<v1::RerankResponse>> members;
    for (const MembersRequest& one : missing) {
      const PartRequest& part = split->parts[one.part_request];
      members.emplace_back(Answer(*one.request, DocumentsOf(part.part), 100 + part.part));
      const std::optional<AnswerFault> fault =
          CheckRerankAnswer(*one.request, AskedPartOf(part, collection_.get()), *members.back());
      EXPECT_FALSE(fault.has_value()) << fault->message;
    }
    num_asked_again_ += static_cast<int>(missing.size());
    ReplaceResults(missing, std::move(members), answers);
    return MergeRerank(*split, collection_.get(), std::move(answers), limits_);
  }

  int num_asked_again_ = 0;  // parts of requests with group_by
  std::shared_ptr<const CollectionView> collection_;
  std::vector<FakeDocument> documents_;
  service::RequestLimits limits_;
  v1::RerankRequest request_;
};

TEST_F(MergeTest, AnyRequestIsAnsweredAsByOneServer) {
  std::mt19937 random(20261126);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint32_t>(end)); };
  constexpr int kRounds = test::kSanitized ? 400 : 2000;
  for (int round = 0; round < kRounds; ++round) {
    request_.clear_queries();
    request_.clear_candidates();
    const bool is_grouped = below(2) == 0;
    request_.set_group_by(is_grouped ? "book" : "");
    request_.set_group_size(is_grouped ? static_cast<uint32_t>(below(5)) : 0);
    request_.clear_group_values();
    if (is_grouped && below(5) == 0) {
      for (int i = below(6); i >= 0; --i) request_.add_group_values(absl::StrCat("g", below(13)));
    }
    const auto fill = [&](v1::Candidates& candidates) {
      switch (is_grouped ? 2 * below(2) : below(4)) {
        case 0:
          candidates.mutable_whole_collection();
          break;
        case 1:
          for (int i = below(5); i >= 0; --i) {
            candidates.mutable_inline_documents()->add_documents()->set_num_tokens(kFakeDocumentTokens);
          }
          break;
        default:
          for (int i = below(30); i >= 0; --i) {
            candidates.mutable_string_ids()->add_ids(absl::StrCat("doc-", below(kNumDocuments + 20)));
          }
      }
    };
    fill(*request_.mutable_candidates());
    for (int i = below(4); i >= 0; --i) {
      v1::Query& query = AddQuery(static_cast<uint32_t>(1 + below(5)));
      if (below(2) == 0) fill(*query.mutable_candidates());
    }
    request_.set_top_k(static_cast<uint32_t>(1 + below(20)));
    request_.set_offset(below(2) == 0 ? 0 : static_cast<uint32_t>(below(30)));
    request_.clear_min_score();
    if (below(3) == 0) request_.set_min_score(static_cast<float>(below(8)) / 2.0F);
    request_.set_normalize(below(2) == 0);
    request_.set_return_payloads(below(2) == 0);
    request_.set_return_alignments(below(2) == 0);
    absl::StatusOr<v1::RerankResponse> merged = Merge();
    ASSERT_TRUE(merged.ok()) << merged.status() << " in round " << round;
    v1::RerankResponse expected = Answer(request_, documents_);
    expected.set_sequence(merged->sequence());
    merged->clear_timings();
    ASSERT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*merged, expected))
        << "round " << round << "\n"
        << request_.ShortDebugString() << "\n"
        << merged->ShortDebugString() << "\n"
        << expected.ShortDebugString();
  }
  EXPECT_GT(num_asked_again_, kRounds / 20);
}

TEST_F(MergeTest, GroupsOfOneDocumentAreAskedForOnce) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_group_by("book");
  request_.set_top_k(3);
  ASSERT_TRUE(Merge().ok());
  EXPECT_EQ(num_asked_again_, 0);
  request_.set_group_size(3);
  ASSERT_TRUE(Merge().ok());
  EXPECT_GT(num_asked_again_, 0);
  // Results have at most 13 groups. With a top_k of 14, each part returns all of its result groups, so no part is asked
  // again.
  num_asked_again_ = 0;
  request_.set_top_k(14);
  ASSERT_TRUE(Merge().ok());
  EXPECT_EQ(num_asked_again_, 0);
}

TEST_F(MergeTest, APartThatIsLostWhenItIsAskedAgainIsLost) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_group_by("book");
  request_.set_group_size(3);
  request_.set_top_k(3);
  v1::RerankRequest copy = request_;
  const absl::StatusOr<SplitRequest> split = SplitRerank(copy, collection_.get(), limits_, 0);
  ASSERT_TRUE(split.ok());
  std::vector<absl::StatusOr<v1::RerankResponse>> answers;
  for (const PartRequest& part : split->parts) answers.emplace_back(Answer(*part.request, DocumentsOf(part.part)));
  const std::vector<MembersRequest> missing = FindMissingMembers(*split, answers);
  ASSERT_FALSE(missing.empty());
  std::vector<absl::StatusOr<v1::RerankResponse>> members;
  for (const MembersRequest& one : missing) {
    members.emplace_back(one.part_request == missing[0].part_request
                             ? absl::StatusOr<v1::RerankResponse>(absl::UnavailableError("away"))
                             : Answer(*one.request, DocumentsOf(split->parts[one.part_request].part)));
  }
  ReplaceResults(missing, std::move(members), answers);
  const auto merged = MergeRerank(*split, collection_.get(), std::move(answers), limits_);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->unavailable_groups_size(), 1);
  EXPECT_EQ(merged->results(0).unavailable_documents(), DocumentsOf(missing[0].part_request).size());
}

// Live partitions with separate logs each number their writes from 1, so documents of different partitions may have
// equal positions. The order of their results must not depend on top_k.
TEST_F(MergeTest, DocumentsOfOnePositionAreRankedAlikeWhateverTopKIs) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_top_k(kNumDocuments);
  for (size_t part = 0; part < 3; ++part) {
    uint64_t sequence = 0;
    for (FakeDocument& document : documents_) {
      if (collection_->parts[part].slots.contains(collection::SlotOf(std::string_view(document.id)))) {
        document.position = (uint64_t{1} << 40) + ++sequence;
      }
    }
  }
  const auto all = Merge();
  ASSERT_TRUE(all.ok()) << all.status();
  const auto& ids = all->results(0).string_ids().ids();
  for (int top_k = 1; top_k < kNumDocuments; ++top_k) {
    request_.set_top_k(static_cast<uint32_t>(top_k));
    const auto some = Merge();
    ASSERT_TRUE(some.ok()) << some.status();
    const auto& best = some->results(0).string_ids().ids();
    EXPECT_TRUE(std::equal(best.begin(), best.end(), ids.begin())) << "the best " << top_k;
  }
}

TEST_F(MergeTest, AnAnswerHasSeenWhatAllItsPartsHaveSeen) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  EXPECT_EQ(Merge()->sequence(), 0) << "logs of their own have nothing in common";
  auto of_stream = std::make_shared<CollectionView>(*collection_);
  of_stream->info.mutable_live()->set_log(kStreamLog);
  collection_ = of_stream;
  EXPECT_EQ(Merge()->sequence(), 100);
}

TEST_F(MergeTest, ALostGroupIsNamedAndItsDocumentsAreCounted) {
  AddQuery();
  AddQuery(2).mutable_candidates()->mutable_whole_collection();
  SetIds({"doc-0", "doc-1", "doc-2", "doc-3", "doc-4", "doc-5", "doc-0", "doc-1", "doc-2", "other"});
  const auto merged = Merge({1});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(merged->unavailable_groups(), ElementsAre("g1"));
  std::set<std::string> of_lost;
  for (const std::string& id : request_.candidates().string_ids().ids()) {
    if (collection_->parts[1].slots.contains(collection::SlotOf(std::string_view(id)))) of_lost.insert(id);
  }
  ASSERT_FALSE(of_lost.empty());
  EXPECT_EQ(merged->results(0).unavailable_documents(), of_lost.size());
  EXPECT_EQ(merged->results(1).unavailable_documents(), collection_->parts[1].num_documents);
  for (const std::string& id : merged->results(0).string_ids().ids()) EXPECT_EQ(of_lost.count(id), 0);
  // With `visible`, it is unknown how many lost documents match, so they are not counted.
  request_.mutable_visible()->set_exists("owner");
  EXPECT_EQ(Merge({1})->results(1).unavailable_documents(), 1);
}

TEST_F(MergeTest, ALostGroupFailsARequestThatSaysSo) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Merge({1}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("group g1 does not answer: away"));
}

TEST_F(MergeTest, WithoutAnyGroupThereIsNoAnswer) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  EXPECT_TRUE(absl::IsUnavailable(Merge({0, 1, 2}).status()));
}

TEST_F(MergeTest, AnErrorThatIsNoLossFailsTheRequestWithItsPayload) {
  AddQuery();
  AddQuery(2).mutable_candidates()->mutable_whole_collection();
  SetIds({"doc-0"});
  absl::Status full = absl::ResourceExhaustedError("full");
  client::SetRetryAfter(absl::Milliseconds(7), full);
  const absl::Status status = Merge({1}, full).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(client::RetryAfter(status), absl::Milliseconds(7));
  // A group that has not yet reached the request's min_sequence says when to retry. The merged error must say so, too.
  absl::Status behind = absl::UnavailableError("min_sequence: is 5");
  client::SetRetryAfter(absl::Milliseconds(7), behind);
  EXPECT_TRUE(client::RetryAfter(Merge({1}, behind).status()).has_value());
}

TEST_F(MergeTest, AnErrorOfAFieldNamesTheClientsQuery) {
  AddQuery();
  AddQuery(2).mutable_candidates()->mutable_whole_collection();
  SetIds({"doc-0"});
  const size_t of_first = static_cast<size_t>(
      collection_->part_of_slot[static_cast<size_t>(collection::SlotOf(std::string_view("doc-0")))]);
  // A part that gets only the second query calls it queries[0]. The merged error must say queries[1].
  const size_t other = of_first == 0 ? 1 : 0;
  const client::Limit limit(2, 3, "limits.x");
  EXPECT_EQ(Merge({other}, client::InvalidField("queries[0].tokens.dim", "is 3, not queries[0]'s", limit)).status(),
            client::InvalidField("queries[1].tokens.dim", "is 3, not queries[0]'s", limit));
  for (const char* field : {"queries[7].tokens", "queries", "top_k"}) {
    EXPECT_EQ(Merge({other}, client::InvalidField(field, "is 3")).status(), client::InvalidField(field, "is 3"));
  }
  EXPECT_EQ(Merge({other}, absl::InvalidArgumentError("queries[0]: no field")).status(),
            absl::InvalidArgumentError("queries[0]: no field"));
}

TEST_F(MergeTest, UnknownIdsFailARequestThatSaysSo) {
  AddQuery();
  SetIds({"doc-0", "no-1", "doc-1", "no-0", "no-1"});
  request_.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Merge().status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "candidates: 2 of 5 ids are unknown, the first is \"no-1\" (missing_policy is FAIL)");
}

// Merges three parts with these refinements. nullopt means that the part scored all documents without a scan.
class MergeRefinementsTest : public MergeTest {
 protected:
  MergeRefinementsTest() {
    AddQuery(2);
    request_.mutable_candidates()->mutable_whole_collection();
    request_.set_top_k(5);
    request_.mutable_refinement()->set_documents(6);
  }

  static v1::Refinement Of(uint32_t planes, std::optional<float> outside, bool is_bound = true) {
    v1::Refinement refinement;
    refinement.set_planes(planes);
    refinement.set_documents(6);
    refinement.set_certificate(outside.has_value() ? v1::CERTIFICATE_NOT_PROVEN : v1::CERTIFICATE_PROVEN);
    if (outside.has_value()) refinement.set_outside_score(*outside);
    refinement.set_outside_is_bound(is_bound);
    return refinement;
  }

  v1::QueryResult MergeOf(const std::vector<std::optional<v1::Refinement>>& refinements) {
    v1::RerankRequest copy = request_;
    absl::StatusOr<SplitRequest> split = SplitRerank(copy, collection_.get(), limits_, 0);
    EXPECT_TRUE(split.ok()) << split.status();
    std::vector<absl::StatusOr<v1::RerankResponse>> answers;
    for (const PartRequest& part : split->parts) {
      EXPECT_EQ(part.request->refinement().documents(), 6u);
      answers.emplace_back(Answer(*part.request, DocumentsOf(part.part), 100));
      if (!refinements[part.part].has_value()) continue;
      *answers.back()->mutable_results(0)->mutable_refinement() = *refinements[part.part];
    }
    const auto merged = MergeRerank(*split, collection_.get(), std::move(answers), limits_);
    EXPECT_TRUE(merged.ok()) << merged.status();
    return merged->results(0);
  }
};

TEST_F(MergeRefinementsTest, WithoutAScanThereIsNone) {
  EXPECT_FALSE(MergeOf({std::nullopt, std::nullopt, std::nullopt}).has_refinement());
}

TEST_F(MergeRefinementsTest, BoundsBelowTheMergedResultsProve) {
  const v1::QueryResult plain = MergeOf({std::nullopt, std::nullopt, std::nullopt});
  ASSERT_EQ(plain.scores_size(), 5);
  const float last = plain.scores(4);
  ASSERT_GT(last, 0);
  // Every part's bound on the documents that it left out is below the worst merged score.
  const v1::QueryResult proven = MergeOf({Of(4, last - 0.5F), std::nullopt, Of(2, last - 1)});
  EXPECT_EQ(proven.refinement().certificate(), v1::CERTIFICATE_PROVEN);
  EXPECT_EQ(proven.refinement().planes(), 2u);
  EXPECT_EQ(proven.refinement().documents(), 12u);
  EXPECT_EQ(proven.refinement().outside_score(), last - 0.5F);
  EXPECT_EQ(proven.refinement().margin(), 0.5F);
  EXPECT_EQ(proven.string_ids().ids_size(), 5);
  // A bound that equals the worst score proves nothing. An estimate proves nothing, either.
  EXPECT_EQ(MergeOf({Of(4, last), Of(4, -1.0F), Of(4, -1.0F)}).refinement().certificate(), v1::CERTIFICATE_NOT_PROVEN);
  EXPECT_EQ(MergeOf({Of(4, -1.0F, false), Of(4, -1.0F), Of(4, -1.0F)}).refinement().certificate(),
            v1::CERTIFICATE_NOT_PROVEN);
  // A part that has scored all of its documents does not prevent a proof.
  EXPECT_EQ(MergeOf({Of(1, std::nullopt, false), Of(4, -1.0F), std::nullopt}).refinement().certificate(),
            v1::CERTIFICATE_PROVEN);
  const v1::Refinement all = MergeOf({Of(1, std::nullopt, false), Of(1, std::nullopt), std::nullopt}).refinement();
  EXPECT_EQ(all.certificate(), v1::CERTIFICATE_PROVEN);
  EXPECT_FALSE(all.has_outside_score());
}

TEST_F(MergeRefinementsTest, NumbersAreNormalizedWithTheScores) {
  const float last = MergeOf({std::nullopt, std::nullopt, std::nullopt}).scores(4);
  request_.set_normalize(true);
  const v1::QueryResult merged = MergeOf({Of(4, last - 1), Of(4, last - 2), std::nullopt});
  EXPECT_EQ(merged.scores(4), last / 2);
  EXPECT_EQ(merged.refinement().outside_score(), (last - 1) / 2);
  EXPECT_EQ(merged.refinement().margin(), 0.5F);
}

TEST_F(MergeTest, AnAnswerThatIsTooLargeIsRefused) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  limits_.max_answer_bytes = 50;
  const absl::Status status = Merge().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("limits.max_answer_bytes"));
}

}  // namespace
}  // namespace maxsim::cluster
