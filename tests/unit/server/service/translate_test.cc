// Tests what a valid request becomes.
#include "server/service/request/translate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/quantize.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"
#include "tests/unit/server/service/translate_fixture.h"

namespace maxsim::service {
namespace {

using engine::CandidateSet;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(TranslateTest, IdsBecomeOrdinalsDuplicatesCollapseAndUnknownOnesAreReportedOnce) {
  Build(collection::IdType::kString);
  const auto request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4),
                                         {"doc-7", "nobody", "doc-3", "doc-7", "nothing", "nobody", "doc-19"}, 3);
  const Translated translated = Accept(request);
  const CandidateSet& set = *translated.job->queries[0].candidates;
  EXPECT_EQ(set.kind, CandidateSet::Kind::kOrdinals);
  EXPECT_THAT(set.ordinals, ElementsAre(7, 3, 19));
  EXPECT_THAT(set.positions, ElementsAre(0, 2, 6));
  EXPECT_THAT(translated.answer.queries[0].candidates->missing_string_ids, ElementsAre("nobody", "nothing"));
  const uint64_t tokens = static_cast<uint64_t>(documents_.length(7) + documents_.length(3) + documents_.length(19));
  EXPECT_EQ(translated.job->work, 4 * tokens);
}

TEST_F(TranslateTest, IntegerIdsWorkTheSame) {
  Build(collection::IdType::kInt64);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  for (const int64_t id : {1004, -5, 1004, 1000, -5}) request.mutable_candidates()->mutable_int_ids()->add_ids(id);
  const Translated translated = Accept(request);
  EXPECT_THAT(translated.job->queries[0].candidates->ordinals, ElementsAre(4, 0));
  EXPECT_THAT(translated.job->queries[0].candidates->positions, ElementsAre(0, 3));
  EXPECT_THAT(translated.answer.queries[0].candidates->missing_int_ids, ElementsAre(-5));
}

TEST_F(TranslateTest, ALongListIsDeduplicatedToo) {
  Build(collection::IdType::kString);
  std::vector<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.push_back("doc-" + std::to_string(i % 20));
  const Translated translated =
      Accept(test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), ids, 3));
  EXPECT_EQ(translated.job->queries[0].candidates->ordinals.size(), 20u);
}

TEST_F(TranslateTest, AShortListOfALargeCollectionIsDeduplicated) {
  test::BuildCorpus(folder_ / "large", test::SmallDocuments(1, 1000, ScalarType::kF16, kDim));
  collection_ = test::LoadCorpus(folder_ / "large", &backend_);
  const Translated translated = Accept(
      test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {"doc-999", "doc-0", "doc-999"}, 3));
  EXPECT_THAT(translated.job->queries[0].candidates->ordinals, ElementsAre(999, 0));
  EXPECT_THAT(translated.job->queries[0].candidates->positions, ElementsAre(0, 1));
}

TEST_F(TranslateTest, QueriesShareTheRequestsCandidatesUnlessTheyNameTheirOwn) {
  Build(collection::IdType::kString);
  v1::RerankRequest request =
      test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {"doc-1", "doc-2"}, 3);
  test::AddQuery(test::MakeQuery(3, ScalarType::kF16, kDim, 4), &request);
  test::AddQuery(test::MakeQuery(4, ScalarType::kF16, kDim, 4), &request);
  request.mutable_queries(1)->mutable_candidates()->mutable_whole_collection();
  const Translated translated = Accept(request);
  const auto& queries = translated.job->queries;
  EXPECT_EQ(queries[0].candidates, queries[2].candidates);
  EXPECT_EQ(queries[1].candidates->kind, CandidateSet::Kind::kWholeCollection);
  EXPECT_EQ(translated.job->work,
            8 * static_cast<uint64_t>(documents_.length(1) + documents_.length(2)) + 4 * collection_->num_tokens());
}

TEST_F(TranslateTest, AQueryWithoutAKnownCandidateIsAnsweredEmptyAndNotScored) {
  Build(collection::IdType::kString);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {"nobody"}, 3);
  EXPECT_EQ(Accept(request).job, nullptr);
  const v1::RerankResponse empty = BuildResponse(Accept(request).answer, {});
  ASSERT_EQ(empty.results_size(), 1);
  EXPECT_EQ(empty.results(0).scores_size(), 0);
  EXPECT_THAT(empty.results(0).missing_string_ids().ids(), ElementsAre("nobody"));
  EXPECT_EQ(empty.generation(), 1u);

  test::AddQuery(test::MakeQuery(3, ScalarType::kF16, kDim, 6), &request);
  request.mutable_queries(1)->mutable_candidates()->mutable_string_ids()->add_ids("doc-5");
  const Translated translated = Accept(request);
  ASSERT_EQ(translated.job->queries.size(), 1u);
  EXPECT_EQ(translated.job->queries[0].num_tokens, 6);
  EXPECT_EQ(translated.answer.queries[0].job_query, -1);
  EXPECT_EQ(translated.answer.queries[1].job_query, 0);
}

TEST_F(TranslateTest, ValuesAreRoundedToTheStorageType) {
  for (const ScalarType storage : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
    SCOPED_TRACE(Name(storage));
    Build(collection::IdType::kString, false, storage);
    for (const ScalarType sent : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
      const test::RandomQuery query = test::MakeQuery(5, sent, kDim, 3);
      const Translated translated = Accept(test::MakeRequest("corpus", query, {"doc-1"}, 3));
      std::vector<std::byte> expected(3 * kDim * SizeOf(storage));
      ConvertElements(sent, query.tokens.data(), storage, expected.data(), 3 * kDim);
      EXPECT_EQ(translated.job->queries[0].tokens, expected) << Name(sent);
    }
  }
}

TEST_F(TranslateTest, QueriesForI8AreF32) {
  Build(collection::IdType::kString, false, ScalarType::kI8);
  for (const ScalarType sent : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
    const test::TokenMatrix tokens = test::RandomTokens(5, sent, kDim, 3);
    const Translated translated = Accept(test::MakeRequest("corpus", {tokens, {}}, {"doc-1"}, 3));
    std::vector<std::byte> expected(3 * kDim * sizeof(float));
    ConvertElements(sent, tokens.data(), ScalarType::kF32, expected.data(), 3 * kDim);
    EXPECT_EQ(translated.job->queries[0].tokens, expected) << Name(sent);
  }
}

// Inline documents must get the same elements and scales that the collection would store for them.
TEST_F(TranslateTest, InlineDocumentsForI8AreQuantised) {
  Build(collection::IdType::kString, false, ScalarType::kI8);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF32, kDim, 4), {}, 3);
  for (int64_t document = 0; document < documents_.num_documents(); ++document) {
    test::TokenMatrix one(ScalarType::kF32, kDim, documents_.length(document));
    for (int64_t token = 0; token < documents_.length(document); ++token) {
      one.CopyRow(documents_.tokens, documents_.offsets[static_cast<size_t>(document)] + token, token);
    }
    *request.mutable_candidates()->mutable_inline_documents()->add_documents() = test::ToProto(one);
  }
  const Translated translated = Accept(request);
  const CandidateSet& set = *translated.job->queries[0].candidates;
  const test::RandomDocuments stored = test::Stored(documents_, ScalarType::kI8);
  EXPECT_EQ(set.inline_scales, stored.scales);
  EXPECT_EQ(set.inline_offsets, stored.offsets);
  ASSERT_EQ(set.inline_tokens.size(), static_cast<size_t>(stored.tokens.num_tokens() * kDim));
  EXPECT_EQ(std::memcmp(set.inline_tokens.data(), stored.tokens.data(), set.inline_tokens.size()), 0);
  EXPECT_GE(engine::JobBytes(*translated.job), set.inline_tokens.size() + set.inline_scales.size() * sizeof(float));
}

TEST_F(TranslateTest, InlineDocumentsThatTheRotationTakesBeyondTheLimitAreRefused) {
  Build(collection::IdType::kString, false, ScalarType::kI8);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF32, kDim, 4), {}, 3);
  std::vector<float> row(kDim);
  row[3] = 1;
  Unrotate(documents_.rotation_seed, absl::MakeSpan(row));
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  ASSERT_LT(largest, 0.95F);
  for (float& value : row) value *= 0.999e12F / largest;
  test::TokenMatrix document(ScalarType::kF32, kDim, 1);
  document.SetRow(0, row);
  *request.mutable_candidates()->mutable_inline_documents()->add_documents() = test::ToProto(document);
  const absl::Status status = Translate(request, collection_, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("candidates.inline_documents.documents[0].data: holds values that reach "));
  EXPECT_THAT(status.message(), HasSubstr("must be at most 1e+12"));
}

TEST_F(TranslateTest, InlineDocumentsBecomeOneRaggedArray) {
  Build(collection::IdType::kString);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  const test::TokenMatrix first = test::RandomTokens(3, ScalarType::kF16, kDim, 2);
  const test::TokenMatrix second = test::RandomTokens(4, ScalarType::kF16, kDim, 5);
  auto* documents = request.mutable_candidates()->mutable_inline_documents();
  *documents->add_documents() = test::ToProto(first);
  *documents->add_documents() = test::ToProto(second);
  const Translated translated = Accept(request);
  const CandidateSet& set = *translated.job->queries[0].candidates;
  EXPECT_EQ(set.kind, CandidateSet::Kind::kInline);
  EXPECT_THAT(set.inline_offsets, ElementsAre(0, 2, 7));
  ASSERT_EQ(set.inline_tokens.size(), 7u * kDim * 2);
  EXPECT_EQ(std::memcmp(set.inline_tokens.data(), first.data(), 2 * kDim * 2), 0);
  EXPECT_EQ(std::memcmp(set.inline_tokens.data() + 2 * kDim * 2, second.data(), 5 * kDim * 2), 0);
}

TEST_F(TranslateTest, DefaultsAreFilledIn) {
  Build(collection::IdType::kString);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {"doc-1"}, 0);
  EXPECT_EQ(Accept(request).job->queries[0].top_k, 10);
  EXPECT_EQ(Accept(request).job->priority, engine::Priority::kNormal);
  request.set_priority(v1::PRIORITY_HIGH);
  EXPECT_EQ(Accept(request).job->priority, engine::Priority::kHigh);
  request.set_priority(v1::PRIORITY_LOW);
  EXPECT_EQ(Accept(request).job->priority, engine::Priority::kLow);
}

// Lists of ids are resolved in the request's snapshot. So scans of the same request must use this snapshot, too.
TEST_F(TranslateTest, AJobOfScansAndListsIsPinned) {
  Build(collection::IdType::kString);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {"doc-1"}, 3);
  EXPECT_FALSE(Accept(request).job->pinned);
  test::AddQuery(test::MakeQuery(3, ScalarType::kF16, kDim, 4), &request);
  request.mutable_queries(1)->mutable_candidates()->mutable_whole_collection();
  EXPECT_TRUE(Accept(request).job->pinned);
  request.mutable_candidates()->mutable_whole_collection();
  EXPECT_FALSE(Accept(request).job->pinned);
  *request.mutable_queries(1)->mutable_candidates()->mutable_inline_documents()->add_documents() =
      request.queries(0).tokens();
  EXPECT_FALSE(Accept(request).job->pinned);
}

}  // namespace
}  // namespace maxsim::service
