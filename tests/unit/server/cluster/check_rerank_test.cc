// Tests the router's check of rerank answers: it must accept right answers, and must name the wrong field of an answer
// with a single wrong field.
#include "server/cluster/parts/check_rerank.h"

#include <functional>
#include <iterator>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/fake_answer.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CheckRerankTest : public testing::Test {
 protected:
  CheckRerankTest() {
    for (uint64_t i = 0; documents_.size() < 8; ++i) {
      std::string id = absl::StrCat("doc-", i);
      if (slots_.contains(collection::SlotOf(std::string_view(id)))) documents_.push_back({std::move(id), i});
    }
    request_.set_request_id("r");
    request_.set_generation(7);
    request_.set_top_k(5);
    request_.add_queries()->mutable_tokens()->set_num_tokens(2);
    part_ = {.has_int_ids = false, .slots = slots_, .num_documents = documents_.size()};
  }

  // Sets the candidates: the first `count` documents, and an id that does not exist.
  void ListIds(int count) {
    v1::StringIds& ids = *request_.mutable_candidates()->mutable_string_ids();
    for (int i = 0; i < count; ++i) ids.add_ids(documents_[static_cast<size_t>(i)].id);
    ids.add_ids("nobody");
  }

  v1::RerankResponse Right() const { return Answer(request_, documents_); }
  std::string FieldOf(const v1::RerankResponse& answer) const {
    const std::optional<AnswerFault> fault = CheckRerankAnswer(request_, part_, answer);
    return fault.has_value() ? fault->field : "";
  }
  // Applies `change` to the first result of a right answer. Returns the field that the check reports, "" for none.
  std::string FieldAfter(const std::function<void(v1::QueryResult&)>& change) const {
    v1::RerankResponse answer = Right();
    EXPECT_EQ(FieldOf(answer), "");
    change(*answer.mutable_results(0));
    return FieldOf(answer);
  }

  const collection::SlotRange slots_ = collection::PartitionOf(1, 3);
  std::vector<FakeDocument> documents_;
  v1::RerankRequest request_;
  AskedPart part_;
};

TEST_F(CheckRerankTest, FieldsOfTheAnswerAreThoseOfTheRequest) {
  request_.mutable_candidates()->mutable_whole_collection();
  v1::RerankResponse answer = Right();
  EXPECT_EQ(FieldOf(answer), "");
  answer.set_request_id("another");
  EXPECT_EQ(FieldOf(answer), "request_id");
  answer = Right();
  answer.set_generation(8);
  EXPECT_EQ(FieldOf(answer), "generation");
  answer = Right();
  answer.add_results();
  EXPECT_EQ(FieldOf(answer), "results");
  answer.clear_results();
  EXPECT_EQ(FieldOf(answer), "results");
  answer = Right();
  answer.mutable_timings()->set_kernel_us(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(FieldOf(answer), "timings");
  request_.set_min_sequence(5);
  EXPECT_EQ(FieldOf(Answer(request_, documents_, 5)), "");
  EXPECT_EQ(FieldOf(Answer(request_, documents_, 4)), "sequence");
}

TEST_F(CheckRerankTest, ScoresAreFiniteAndInOrder) {
  request_.mutable_candidates()->mutable_whole_collection();
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_scores(0, kNan); }), "scores");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_scores(0, kInfinity); }), "scores");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_scores(4, -kInfinity); }), "scores");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_scores(4, 99); }), "order");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) {
              result.set_scores(1, result.scores(0));
              result.set_positions(0, 100);
              result.set_positions(1, 100);
            }),
            "order");
  // -0 equals 0, so that their positions decide.
  const auto zeros_at = [](const std::vector<uint64_t>& positions) {
    return [positions](v1::QueryResult& result) {
      for (int i = 0; i < 5; ++i) result.set_scores(i, i == 1 ? -0.0f : 0.0f);
      for (int i = 0; i < 5; ++i) result.set_positions(i, positions[static_cast<size_t>(i)]);
    };
  };
  EXPECT_EQ(FieldAfter(zeros_at({2, 3, 4, 5, 6})), "");
  EXPECT_EQ(FieldAfter(zeros_at({3, 2, 4, 5, 6})), "order");
  EXPECT_EQ(FieldAfter(zeros_at({2, 4, 3, 5, 6})), "order");
}

// With a filter, the router does not know how many documents match, so it must accept fewer results.
TEST_F(CheckRerankTest, WithAFilterThereMayBeFewerResults) {
  const auto without_last = [](v1::QueryResult& result) {
    result.mutable_scores()->RemoveLast();
    result.mutable_positions()->RemoveLast();
    result.mutable_string_ids()->mutable_ids()->RemoveLast();
  };
  request_.mutable_candidates()->mutable_whole_collection();
  EXPECT_EQ(FieldAfter(without_last), "scores");
  request_.set_filter_text("exists(a)");
  EXPECT_EQ(FieldAfter(without_last), "");
  ListIds(4);
  EXPECT_EQ(FieldAfter(without_last), "");
  v1::RerankResponse answer = Right();
  request_.set_top_k(3);
  EXPECT_EQ(FieldOf(answer), "scores") << "four results, and top_k is 3";
}

TEST_F(CheckRerankTest, GroupsStandTogetherInTheOrderOfTheirBestDocuments) {
  // Sets the scores and groups, so that the right order is known: groups a, a, b, b.
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_group_by("book");
  request_.set_group_size(2);
  request_.set_top_k(2);
  const auto right = [&] {
    v1::RerankRequest plain = request_;
    plain.clear_group_by();
    plain.set_top_k(4);
    v1::RerankResponse answer = Answer(plain, documents_);
    v1::QueryResult& result = *answer.mutable_results(0);
    const std::vector<float> scores = {4, 1, 3, 2};
    const std::vector<std::string> values = {"a", "a", "b", "b"};
    result.mutable_scores()->Assign(scores.begin(), scores.end());
    result.mutable_group_values()->Assign(values.begin(), values.end());
    return answer;
  };
  const auto field_after = [&](const std::function<void(v1::QueryResult&)>& change) {
    v1::RerankResponse answer = right();
    change(*answer.mutable_results(0));
    return FieldOf(answer);
  };
  EXPECT_EQ(FieldOf(right()), "");
  EXPECT_EQ(field_after([](auto& result) { result.mutable_group_values()->RemoveLast(); }), "group_values");
  EXPECT_EQ(field_after([](auto& result) { result.set_scores(1, kNan); }), "scores");
  EXPECT_EQ(field_after([](auto& result) { result.set_scores(1, 5); }), "order") << "of a group";
  EXPECT_EQ(field_after([](auto& result) { result.set_scores(2, 5); }), "order") << "of groups";
  EXPECT_EQ(field_after([](auto& result) { result.set_group_values(3, "c"); }), "group_values") << "too many groups";
  EXPECT_EQ(field_after([](auto& result) { result.set_group_values(3, "a"); }), "group_values") << "a group in two";
  EXPECT_EQ(field_after([](auto& result) { result.set_group_values(2, "a"); }), "order");
  request_.set_group_size(1);
  EXPECT_EQ(FieldOf(right()), "group_values") << "too many documents of a group";
  request_.set_group_size(2);
  request_.clear_group_by();
  request_.set_top_k(5);
  EXPECT_NE(FieldOf(right()), "") << "groups that nobody asked for";
}

TEST_F(CheckRerankTest, ListsHaveOneElementPerResult) {
  request_.mutable_candidates()->mutable_whole_collection();
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_positions()->RemoveLast(); }), "positions");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.add_payloads(); }), "payloads");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.add_alignments(); }), "alignments");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.add_query_tokens(); }), "query_tokens");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.clear_string_ids(); }), "string_ids");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_int_ids()->add_ids(1); }), "string_ids");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_missing_string_ids()->add_ids("x"); }),
            "missing_string_ids");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_missing_int_ids()->add_ids(1); }),
            "missing_int_ids");
  part_.has_int_ids = true;
  EXPECT_EQ(FieldOf(Right()), "string_ids");
}

TEST_F(CheckRerankTest, PayloadsAndAlignmentsAreThereWhereTheyWereAskedFor) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_return_payloads(true);
  request_.set_return_alignments(true);
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_payloads()->RemoveLast(); }), "payloads");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_alignments()->RemoveLast(); }), "alignments");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_alignments(3)->add_document_tokens(0); }),
            "alignments");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_alignments(3)->clear_similarities(); }),
            "alignments");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_alignments(0)->set_similarities(1, kNan); }),
            "alignments");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_alignments(0)->set_document_tokens(1, 65536); }),
            "alignments");
}

TEST_F(CheckRerankTest, AScanHasTheBestOfThePart) {
  request_.mutable_candidates()->mutable_whole_collection();
  const auto drop_last = [](v1::QueryResult& result) {
    result.mutable_scores()->RemoveLast();
    result.mutable_positions()->RemoveLast();
    result.mutable_string_ids()->mutable_ids()->RemoveLast();
  };
  EXPECT_EQ(FieldAfter(drop_last), "scores");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_unavailable_documents(9); }), "unavailable_documents");
  EXPECT_EQ(FieldAfter([&](v1::QueryResult& result) {
              drop_last(result);
              result.set_unavailable_documents(4);
            }),
            "");
  EXPECT_EQ(
      FieldAfter([](v1::QueryResult& result) { result.mutable_string_ids()->set_ids(1, result.string_ids().ids(0)); }),
      "ids");
  // A replica may have another partition than the router expects, and answer with documents of other slots.
  part_.slots = collection::PartitionOf(0, 3);
  const std::optional<AnswerFault> fault = CheckRerankAnswer(request_, part_, Right());
  ASSERT_TRUE(fault.has_value());
  EXPECT_THAT(fault->message, HasSubstr("but the group has slots 0 .. 1364"));
}

TEST_F(CheckRerankTest, AScanOfALiveCollectionHasAnyNumberUpToTopK) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.set_generation(0);
  part_.num_documents = 0;
  EXPECT_EQ(FieldOf(Right()), "");
  const v1::RerankResponse answer = Right();
  request_.set_top_k(4);
  EXPECT_EQ(FieldOf(answer), "scores");
}

TEST_F(CheckRerankTest, ListedResultsAreCandidates) {
  ListIds(6);
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_positions(4, 7); }), "positions");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_string_ids()->set_ids(0, "never-asked"); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) {
              result.set_scores(0, result.scores(1) + 1);
              result.set_positions(0, result.positions(1));
              result.mutable_string_ids()->set_ids(0, result.string_ids().ids(1));
            }),
            "ids")
      << "a document that comes twice";
}

TEST_F(CheckRerankTest, MissingIdsAreCandidatesThatWereNotFound) {
  ListIds(3);
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_missing_string_ids()->set_ids(0, "other"); }),
            "missing");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_missing_string_ids()->add_ids("nobody"); }),
            "missing");
  EXPECT_EQ(FieldAfter(
                [this](v1::QueryResult& result) { result.mutable_missing_string_ids()->set_ids(0, documents_[0].id); }),
            "missing")
      << "an id that was found too";
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.clear_missing_string_ids(); }), "scores");
}

TEST_F(CheckRerankTest, RepeatedCandidatesCountOnce) {
  ListIds(2);
  ListIds(2);
  EXPECT_EQ(FieldOf(Right()), "");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.clear_missing_string_ids(); }), "scores");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_unavailable_documents(1); }), "scores");
}

TEST_F(CheckRerankTest, InlineDocumentsAreKnownByTheirPositions) {
  request_.set_return_alignments(true);
  v1::InlineDocuments& inline_documents = *request_.mutable_candidates()->mutable_inline_documents();
  for (int i = 0; i < 3; ++i) inline_documents.add_documents()->set_num_tokens(kFakeDocumentTokens);
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.set_positions(2, 3); }), "positions");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) {
              for (int i = 0; i < 3; ++i) result.set_scores(i, static_cast<float>(9 - i));
              result.set_positions(0, result.positions(2));
            }),
            "positions");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) { result.mutable_string_ids()->add_ids("x"); }), "string_ids");
  EXPECT_EQ(FieldAfter([](v1::QueryResult& result) {
              result.mutable_alignments(0)->set_document_tokens(0, kFakeDocumentTokens);
            }),
            "alignments");
}

TEST_F(CheckRerankTest, ARefinementFitsItsResult) {
  request_.mutable_candidates()->mutable_whole_collection();
  v1::Refinement right;
  right.set_planes(4);
  right.set_documents(5);
  right.set_certificate(v1::CERTIFICATE_PROVEN);
  right.set_outside_score(-1);
  right.set_outside_is_bound(true);
  right.set_margin(1);
  const auto field_with = [&](const std::function<void(v1::Refinement&)>& change) {
    return FieldAfter([&](v1::QueryResult& result) {
      *result.mutable_refinement() = right;
      change(*result.mutable_refinement());
    });
  };
  const float last = *std::prev(Right().results(0).scores().end());
  EXPECT_EQ(field_with([](v1::Refinement&) {}), "");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.clear_outside_score(); }), "");
  EXPECT_EQ(field_with([&](v1::Refinement& one) {
              one.set_certificate(v1::CERTIFICATE_NOT_PROVEN);
              one.set_outside_score(last);
            }),
            "");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.set_planes(3); }), "refinement");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.set_planes(0xffffffff); }), "refinement");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.set_documents(4); }), "refinement");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.set_margin(kNan); }), "refinement");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.set_outside_score(-kInfinity); }), "refinement");
  EXPECT_EQ(field_with([&](v1::Refinement& one) { one.set_outside_score(last); }), "refinement") << "a tie";
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.set_outside_is_bound(false); }), "refinement");
  EXPECT_EQ(field_with([](v1::Refinement& one) { one.clear_certificate(); }), "refinement");
  request_.clear_candidates();
  for (int i = 0; i < 6; ++i) {
    request_.mutable_candidates()->mutable_inline_documents()->add_documents()->set_num_tokens(kFakeDocumentTokens);
  }
  EXPECT_EQ(field_with([](v1::Refinement&) {}), "refinement");
}

TEST_F(CheckRerankTest, AQueryWithoutTokensHasNoAnswer) {
  request_.mutable_candidates()->mutable_whole_collection();
  request_.mutable_queries(0)->mutable_tokens()->set_num_tokens(0);
  EXPECT_EQ(FieldOf(Right()), "results");
}

TEST_F(CheckRerankTest, AnExplanationHasOneSimilarityPerPairOfTokens) {
  v1::ExplainResponse right;
  right.set_generation(7);
  right.set_num_query_tokens(2);
  right.set_num_document_tokens(3);
  for (int i = 0; i < 6; ++i) right.add_similarities(0.5);
  const auto field_after = [&](const std::function<void(v1::ExplainResponse&)>& change) {
    v1::ExplainResponse answer = right;
    change(answer);
    const std::optional<AnswerFault> fault = CheckExplainAnswer(request_, answer);
    return std::string(fault.has_value() ? fault->field : "");
  };
  EXPECT_EQ(field_after([](v1::ExplainResponse&) {}), "");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.set_generation(6); }), "generation");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.set_num_query_tokens(3); }), "query_tokens");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.set_num_document_tokens(4); }), "similarities");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.set_num_document_tokens(1u << 31); }),
            "document_tokens");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.add_document_tokens("x"); }), "document_tokens");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.set_similarities(5, kInfinity); }), "similarities");
  EXPECT_EQ(field_after([](v1::ExplainResponse& answer) { answer.set_score(kNan); }), "scores");
}

}  // namespace
}  // namespace maxsim::cluster
