// Tests how messages are made from results: ids, positions, payloads, missing ids, and the limit on an answer's size.
#include "server/service/request/translate.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"
#include "tests/unit/server/service/translate_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  // Each of the two results has 14 bytes of score and position, an id of 5 bytes, a payload of 7 bytes, and 6 more
  // bytes for each of these strings.
  const uint64_t bytes = 2 * (14 + (5 + 6) + (7 + 6));
  const auto check = [&](uint64_t limit) {
    return CheckAnswerSize(Accept(request).answer, result, {.max_answer_bytes = limit});
  };
  EXPECT_TRUE(check(bytes).ok());
  EXPECT_EQ(check(bytes - 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(bytes - 1).message(),
            "return_payloads: the results and their payloads take 76 bytes, but an answer has at most 75 "
            "(limits.max_answer_bytes); lower top_k");
  request.set_return_payloads(false);
  const uint64_t without = bytes - 2 * (7 + 6);
  EXPECT_TRUE(check(without).ok());
  EXPECT_EQ(check(without - 1).message(),
            "top_k: the results of all queries take 50 bytes, but an answer has at most 49 (limits.max_answer_bytes); "
            "lower it, or send fewer queries");
  // The actual message must not be larger than the counted size.
  request.set_return_payloads(true);
  const Translated accepted = Accept(request);
  EXPECT_LE(BuildResponse(accepted.answer, result).results(0).ByteSizeLong(), bytes);
}

// Every query's result lists the unknown ids, even if all queries have the same candidates. So the size of the answer
// must count these ids once per query.
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
            "return_alignments: 10 token matches ((offset + top_k) x query tokens) take 90 bytes, but an answer has at "
            "most 89 "
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
  EXPECT_EQ(behind.message(), "min_sequence: is 6, but collection corpus has only reached 5");
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
