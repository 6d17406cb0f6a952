// Tests what a valid request becomes, and what a result becomes.
#include "server/service/request/translate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/quantize.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using engine::CandidateSet;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TranslateTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 16;

  void Build(collection::IdType id_type, bool payloads = false, ScalarType storage = ScalarType::kF16) {
    documents_ = test::SmallDocuments(1, 20, QueryType(storage), kDim);
    test::CorpusOptions options;
    options.id_type = id_type;
    options.payloads = payloads;
    options.max_shard_bytes = collection::kMinMaxShardBytes;
    options.storage = storage;
    test::BuildCorpus(folder_ / "c", documents_, options);
    collection_ = test::LoadCorpus(folder_ / "c", &backend_);
    ASSERT_NE(collection_, nullptr);
  }

  Translated Accept(const v1::RerankRequest& request) {
    auto translated = Translate(request, collection_, {});
    EXPECT_TRUE(translated.ok()) << translated.status();
    return translated.ok() ? *std::move(translated) : Translated{};
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  test::RandomDocuments documents_;
  std::shared_ptr<const store::Collection> collection_;
};

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

// Inline documents get the elements and scales that they would be stored with in the collection.
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

TEST_F(TranslateTest, ResultsCarryIdsPositionsPayloadsAndAlignments) {
  Build(collection::IdType::kString, /*payloads=*/true);
  v1::RerankRequest request =
      test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 2), {"doc-7", "doc-3"}, 3);
  request.set_request_id("r-1");
  request.set_return_payloads(true);
  request.set_return_alignments(true);
  engine::JobResult result;
  result.queries.resize(1);
  result.queries[0].hits = {{.score = 2.5F, .position = 1, .ordinal = 3}, {.score = 1.5F, .position = 0, .ordinal = 7}};
  result.queries[0].matches = {{0, 0.5F}, {1, 2.0F}, {2, 1.0F}, {3, 0.25F}};
  result.queue_time = absl::Microseconds(70);
  const v1::RerankResponse response = BuildResponse(Accept(request).answer, result);
  EXPECT_EQ(response.request_id(), "r-1");
  EXPECT_EQ(response.timings().queue_us(), 70);
  const v1::QueryResult& query = response.results(0);
  EXPECT_THAT(query.string_ids().ids(), ElementsAre("doc-3", "doc-7"));
  EXPECT_THAT(query.scores(), ElementsAre(2.5F, 1.5F));
  EXPECT_THAT(query.positions(), ElementsAre(1, 0));
  EXPECT_THAT(query.payloads(), ElementsAre("{\"n\":3}", "{\"n\":7}"));
  EXPECT_THAT(query.alignments(0).document_tokens(), ElementsAre(0, 1));
  EXPECT_THAT(query.alignments(1).similarities(), ElementsAre(1.0F, 0.25F));
  EXPECT_EQ(query.missing_case(), v1::QueryResult::MISSING_NOT_SET);
}

TEST_F(TranslateTest, WhatADeviceLossTookIsReportedOrFailsByThePolicy) {
  Build(collection::IdType::kString);
  v1::RerankRequest request =
      test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 2), {"doc-7", "doc-3"}, 3);
  EXPECT_FALSE(Accept(request).job->fail_on_unavailable);
  engine::JobResult result;
  result.queries.resize(1);
  result.queries[0].num_unavailable = 2;
  EXPECT_EQ(BuildResponse(Accept(request).answer, result).results(0).unavailable_documents(), 2u);
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  EXPECT_TRUE(Accept(request).job->fail_on_unavailable);
}

TEST_F(TranslateTest, AnAnswerThatPassesTheBoundIsRefused) {
  Build(collection::IdType::kString, /*payloads=*/true);
  v1::RerankRequest request =
      test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 2), {"doc-3", "doc-7"}, 3);
  request.set_return_payloads(true);
  engine::JobResult result;
  result.queries.resize(1);
  result.queries[0].hits = {{.score = 2, .position = 0, .ordinal = 3}, {.score = 1, .position = 1, .ordinal = 7}};
  // The answer has two scores and positions of 14 bytes, ids of 5 and payloads of 7, and 6 for each string.
  const uint64_t bytes = 2 * (14 + (5 + 6) + (7 + 6));
  const auto check = [&](uint64_t limit) {
    return CheckAnswerSize(Accept(request).answer, result, {.max_answer_bytes = limit});
  };
  EXPECT_TRUE(check(bytes).ok());
  EXPECT_EQ(check(bytes - 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(bytes - 1).message(),
            "return_payloads: the results and their payloads take 76 bytes, and an answer has at most 75 "
            "(limits.max_answer_bytes); lower top_k");
  request.set_return_payloads(false);
  const uint64_t without = bytes - 2 * (7 + 6);
  EXPECT_TRUE(check(without).ok());
  EXPECT_EQ(check(without - 1).message(),
            "top_k: the results of all queries take 50 bytes, and an answer has at most 49 (limits.max_answer_bytes); "
            "lower it, or send fewer queries");
  // A message is never larger than what was counted.
  request.set_return_payloads(true);
  const Translated accepted = Accept(request);
  EXPECT_LE(BuildResponse(accepted.answer, result).results(0).ByteSizeLong(), bytes);
}

// Queries that share their candidates each list which of them are unknown.
TEST_F(TranslateTest, UnknownIdsAreCountedForEveryQuery) {
  for (const collection::IdType type : {collection::IdType::kString, collection::IdType::kInt64}) {
    Build(type);
    v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 2), {}, 3);
    uint64_t of_one = 0;
    for (int i = 0; i < 100; ++i) {
      if (type == collection::IdType::kString) {
        request.mutable_candidates()->mutable_string_ids()->add_ids("no-" + std::to_string(100 + i));
        of_one += 6 + 6;
      } else {
        request.mutable_candidates()->mutable_int_ids()->add_ids(-1 - i);
        of_one += 10;
      }
    }
    for (int query = 1; query < 64; ++query) {
      test::AddQuery(test::MakeQuery(2, ScalarType::kF16, kDim, 2), &request);
    }
    EXPECT_TRUE(Translate(request, collection_, {.max_answer_bytes = 64 * of_one}).ok());
    const absl::Status refused = Translate(request, collection_, {.max_answer_bytes = 64 * of_one - 1}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(),
                HasSubstr("candidates: the unknown ids, which the answer repeats for every query, take " +
                          std::to_string(64 * of_one) + " bytes"));
  }
}

TEST_F(TranslateTest, AlignmentsThatNoAnswerHoldsAreRefused) {
  Build(collection::IdType::kString);
  v1::RerankRequest request =
      test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 5), {"doc-3", "doc-7"}, 3);
  request.set_return_alignments(true);
  // The answer has two documents of five matches.
  EXPECT_TRUE(Translate(request, collection_, {.max_answer_bytes = 2 * 5 * 9}).ok());
  EXPECT_EQ(Translate(request, collection_, {.max_answer_bytes = 2 * 5 * 9 - 1}).status().message(),
            "return_alignments: 10 token matches (top_k x query tokens) take 90 bytes, and an answer has at most 89 "
            "(limits.max_answer_bytes); lower top_k");
}

TEST_F(TranslateTest, WhatIsHeldGrowsWithDocumentsAndMissingIds) {
  Build(collection::IdType::kString);
  const auto held = [&](const v1::RerankRequest& request) {
    const Translated translated = Accept(request);
    return HeldBytes(*translated.job, translated.answer);
  };
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 2), {"doc-1"}, 3);
  const uint64_t small = held(request);
  for (int i = 0; i < 1000; ++i) request.mutable_candidates()->mutable_string_ids()->add_ids("no-" + std::to_string(i));
  EXPECT_GE(held(request), small + 1000 * sizeof(std::string));
  const uint64_t once = held(request);
  test::AddQuery(test::MakeQuery(2, ScalarType::kF16, kDim, 2), &request);
  EXPECT_LT(held(request), once + 1000) << "both queries share the candidates";
  request.mutable_candidates()->clear_string_ids();
  *request.mutable_candidates()->mutable_inline_documents()->add_documents() =
      test::ToProto(test::RandomTokens(3, ScalarType::kF16, kDim, 1000));
  EXPECT_GE(held(request), small + 1000 * kDim * sizeof(uint16_t));
}

// Lists are resolved with the request's own snapshot, so that scans beside them are to be of no other.
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

TEST_F(TranslateTest, ALaterSnapshotThatAnsweredNamesSequenceIdsAndPayloads) {
  Build(collection::IdType::kString, /*payloads=*/true);
  std::vector<std::unique_ptr<store::CollectionStore>> stores;  // which outlive their collections
  const auto snapshot = [&](uint64_t sequence) {
    store::CollectionStore& store =
        *stores.emplace_back(std::make_unique<store::CollectionStore>(&backend_, store::StoreOptions()));
    const auto live = std::make_shared<test::FakeLiveDocuments>();
    live->sequence = sequence;
    store.SetOpenLive(
        [&](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live; });
    return *store.Load("corpus", folder_ / "c", store::Residency::kAuto, store::Replication::kAuto, "", nullptr, true);
  };
  collection_ = snapshot(5);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 4), {}, 3);
  request.mutable_candidates()->mutable_whole_collection();
  request.set_return_payloads(true);
  request.set_min_sequence(5);
  const Translated accepted = Accept(request);
  engine::JobResult result;
  result.queries.resize(1);
  result.queries[0].hits = {{.score = 1, .position = 3, .ordinal = 3}};
  EXPECT_EQ(BuildResponse(accepted.answer, result).sequence(), 5u);
  result.collection = snapshot(9);
  const v1::RerankResponse response = BuildResponse(accepted.answer, result);
  EXPECT_EQ(response.sequence(), 9u);
  EXPECT_THAT(response.results(0).string_ids().ids(), ElementsAre("doc-3"));
  EXPECT_THAT(response.results(0).payloads(), ElementsAre(R"({"n":3})"));
  EXPECT_TRUE(CheckAnswerSize(accepted.answer, result, {}).ok());
  request.set_min_sequence(6);
  const absl::Status behind = Translate(request, collection_, {}).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(behind.message(), "min_sequence: is 6, and collection corpus has come to 5");
  collection_ = nullptr;
}

TEST_F(TranslateTest, ResultsOfInlineDocumentsNameNoIds) {
  Build(collection::IdType::kString, /*payloads=*/true);
  v1::RerankRequest request = test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF16, kDim, 2), {}, 3);
  request.set_return_payloads(true);
  *request.mutable_candidates()->mutable_inline_documents()->add_documents() =
      test::ToProto(test::RandomTokens(3, ScalarType::kF16, kDim, 2));
  engine::JobResult result;
  result.queries.resize(1);
  result.queries[0].hits = {{.score = 1, .position = 0, .ordinal = 0}};
  const v1::QueryResult query = BuildResponse(Accept(request).answer, result).results(0);
  EXPECT_EQ(query.ids_case(), v1::QueryResult::IDS_NOT_SET);
  EXPECT_THAT(query.payloads(), ElementsAre(""));
  EXPECT_THAT(query.alignments(), IsEmpty());
}

}  // namespace
}  // namespace maxsim::service
