// Tests that the merged answers of parts are what one server says: against a server of a few lines, which scores by a
// table of small numbers, so that ties are frequent.
#include "server/cluster/merge.h"

#include <algorithm>
#include <random>
#include <set>

#include "client/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kNumDocuments = 60;

struct FakeDocument {
  std::string id;
  uint64_t position = 0;  // in the whole collection
};

// Scores have few values, so that many documents tie. A query is known by the number of its tokens.
float ScoreOf(const v1::Query& query, const std::string& id) {
  return static_cast<float>(std::hash<std::string>()(absl::StrCat(query.tokens().num_tokens(), id)) % 4);
}

struct FakeHit {
  float score = 0;
  uint64_t position = 0;
  std::string id;
};

// Answers as a server does that holds these documents.
v1::RerankResponse Answer(const v1::RerankRequest& request, const std::vector<FakeDocument>& documents,
                          uint64_t sequence = 0) {
  v1::RerankResponse response;
  response.set_request_id(request.request_id());
  response.set_generation(7);
  response.set_sequence(sequence);
  for (const v1::Query& query : request.queries()) {
    v1::QueryResult& result = *response.add_results();
    const v1::Candidates& candidates = query.has_candidates() ? query.candidates() : request.candidates();
    std::vector<FakeHit> hits;
    if (candidates.has_inline_documents()) {
      for (int i = 0; i < candidates.inline_documents().documents_size(); ++i) {
        hits.push_back({ScoreOf(query, absl::StrCat(i)), static_cast<uint64_t>(i), ""});
      }
    } else if (candidates.has_whole_collection()) {
      for (const FakeDocument& document : documents) {
        hits.push_back({ScoreOf(query, document.id), document.position, document.id});
      }
    } else {
      std::set<std::string> seen;
      for (int i = 0; i < candidates.string_ids().ids_size(); ++i) {
        const std::string& id = candidates.string_ids().ids(i);
        if (!seen.insert(id).second) continue;
        const bool known = std::any_of(documents.begin(), documents.end(),
                                       [&](const FakeDocument& document) { return document.id == id; });
        if (known) {
          hits.push_back({ScoreOf(query, id), static_cast<uint64_t>(i), id});
        } else {
          result.mutable_missing_string_ids()->add_ids(id);
        }
      }
    }
    std::sort(hits.begin(), hits.end(), [](const FakeHit& a, const FakeHit& b) {
      return a.score != b.score ? a.score > b.score : a.position < b.position;
    });
    hits.resize(std::min<size_t>(hits.size(), request.top_k()));
    if (!candidates.has_inline_documents()) result.mutable_string_ids();
    for (const FakeHit& hit : hits) {
      if (!candidates.has_inline_documents()) result.mutable_string_ids()->add_ids(hit.id);
      result.add_scores(request.normalize() ? hit.score / static_cast<float>(query.tokens().num_tokens()) : hit.score);
      result.add_positions(hit.position);
      if (request.return_payloads()) result.add_payloads("{" + hit.id + "}");
      if (request.return_alignments()) {
        // A document's alignment does not depend on the list that it stands in.
        const size_t token = hit.id.empty() ? hit.position : std::hash<std::string>()(hit.id) % 100;
        result.add_alignments()->add_document_tokens(static_cast<uint32_t>(token));
      }
    }
  }
  return response;
}

class MergeTest : public testing::Test {
 protected:
  explicit MergeTest(int num_groups = 3) : collection_(*View::Of(MakeGroups(num_groups, 7))->Find("c")) {
    for (int i = 0; i < kNumDocuments; ++i) {
      documents_.push_back({absl::StrCat("doc-", i), static_cast<uint64_t>(i)});
    }
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

  // Splits the request and has each part answer; `lost` parts give `error`.
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
      }
    }
    return MergeRerank(*split, collection_.get(), std::move(answers), limits_);
  }

  std::shared_ptr<const CollectionView> collection_;
  std::vector<FakeDocument> documents_;
  service::RequestLimits limits_;
  v1::RerankRequest request_;
};

TEST_F(MergeTest, AnyRequestIsAnsweredAsByOneServer) {
  std::mt19937 random(20261126);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint32_t>(end)); };
  for (int round = 0; round < 2000; ++round) {
    request_.clear_queries();
    request_.clear_candidates();
    const auto fill = [&](v1::Candidates& candidates) {
      switch (below(4)) {
        case 0:
          candidates.mutable_whole_collection();
          break;
        case 1:
          for (int i = below(5); i >= 0; --i) candidates.mutable_inline_documents()->add_documents();
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
}

// Live partitions with logs of their own number their writes each from 1 on.
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
  // A group that has not come to a sequence says when it will have.
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
  // A part that is asked for the second query alone calls it the first.
  const size_t other = of_first == 0 ? 1 : 0;
  EXPECT_EQ(Merge({other}, absl::InvalidArgumentError("queries[0].tokens.dim: is 3")).status(),
            absl::InvalidArgumentError("queries[1].tokens.dim: is 3"));
}

TEST_F(MergeTest, UnknownIdsFailARequestThatSaysSo) {
  AddQuery();
  SetIds({"doc-0", "no-1", "doc-1", "no-0", "no-1"});
  request_.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Merge().status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "candidates: 2 of 5 ids are unknown, the first is \"no-1\" (missing_policy is FAIL)");
}

TEST_F(MergeTest, AnAnswerThatIsTooLargeIsRefused) {
  AddQuery();
  request_.mutable_candidates()->mutable_whole_collection();
  limits_.max_answer_bytes = 50;
  const absl::Status status = Merge().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("limits.max_answer_bytes"));
}

TEST_F(MergeTest, AnAnswerThatDoesNotFitItsRequestIsAFault) {
  AddQuery();
  SetIds({"doc-0", "doc-1"});
  v1::RerankRequest copy = request_;
  const absl::StatusOr<SplitRequest> split = SplitRerank(copy, collection_.get(), limits_, 0);
  ASSERT_TRUE(split.ok());
  for (int fault = 0; fault < 5; ++fault) {
    std::vector<absl::StatusOr<v1::RerankResponse>> answers;
    for (const PartRequest& part : split->parts) answers.emplace_back(Answer(*part.request, DocumentsOf(part.part)));
    v1::QueryResult& result = *answers[0]->mutable_results(0);
    ASSERT_GT(result.scores_size(), 0);
    if (fault == 0) answers[0]->clear_results();
    if (fault == 1) result.set_positions(0, 99);
    if (fault == 2) result.clear_positions();
    if (fault == 3) result.clear_string_ids();
    if (fault == 4) result.mutable_missing_string_ids()->add_ids("never-asked");
    EXPECT_EQ(MergeRerank(*split, collection_.get(), std::move(answers), limits_).status().code(),
              absl::StatusCode::kInternal)
        << fault;
  }
}

}  // namespace
}  // namespace maxsim::cluster
