// Tests all errors in a request. The error must name the field, the value and the limit.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "server/service/request/translate.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ValidationTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 16;

  static void SetUpTestSuite() {
    world_ = new World;
    test::BuildCorpus(world_->folder / "strings", test::SmallDocuments(1, 20, ScalarType::kF16, kDim));
    test::CorpusOptions ints;
    ints.id_type = collection::IdType::kInt64;
    test::BuildCorpus(world_->folder / "ints", test::SmallDocuments(1, 20, ScalarType::kF32, kDim), ints);
    world_->strings = test::LoadCorpus(world_->folder / "strings", &world_->backend);
    world_->ints = test::LoadCorpus(world_->folder / "ints", &world_->backend);
  }
  static void TearDownTestSuite() { delete world_; }

  // Returns two valid queries of F32 tokens against three ids of the F16 collection.
  static v1::RerankRequest Valid() {
    v1::RerankRequest request =
        test::MakeRequest("corpus", test::MakeQuery(2, ScalarType::kF32, kDim, 4), {"doc-0", "doc-7", "doc-19"}, 3);
    test::AddQuery(test::MakeQuery(3, ScalarType::kF32, kDim, 5), &request);
    return request;
  }

  static absl::StatusOr<Translated> Run(const v1::RerankRequest& request, const RequestLimits& limits = {}) {
    if (absl::Status status = CheckEnvelope(request, limits); !status.ok()) return status;
    return Translate(request, world_->strings, limits);
  }

  // Applies `change` to a valid request and expects INVALID_ARGUMENT. Returns the error's message.
  static std::string Refused(const std::function<void(v1::RerankRequest*)>& change, const RequestLimits& limits = {}) {
    v1::RerankRequest request = Valid();
    change(&request);
    const absl::Status status = Run(request, limits).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  struct World {
    test::TemporaryFolder folder;
    test::FakeBackend backend;
    std::shared_ptr<const store::Collection> strings;
    std::shared_ptr<const store::Collection> ints;
  };
  static World* world_;
};
ValidationTest::World* ValidationTest::world_ = nullptr;

TEST_F(ValidationTest, TheValidRequestIsAccepted) {
  const auto translated = Run(Valid());
  ASSERT_TRUE(translated.ok()) << translated.status();
  ASSERT_NE(translated->job, nullptr);
  EXPECT_EQ(translated->job->queries.size(), 2u);
}

TEST_F(ValidationTest, TheEnvelopeIsChecked) {
  EXPECT_EQ(Refused([](auto* r) { r->set_collection(std::string(129, 'x')); }),
            "collection: has 129 bytes; must have at most 128");
  EXPECT_EQ(Refused([](auto* r) { r->set_request_id(std::string(257, 'x')); }),
            "request_id: has 257 bytes; must have at most 256");
  EXPECT_EQ(Refused([](auto* r) { r->clear_collection(); }),
            "collection: is empty; only inline documents are scored without one");
  EXPECT_THAT(Refused([](auto* r) { r->clear_queries(); }), HasSubstr("queries: has 0 queries; must have 1 to 64"));
  EXPECT_THAT(Refused([](auto*) {}, {.max_queries_per_request = 1}),
              AllOf(HasSubstr("queries: has 2 queries"), HasSubstr("limits.max_queries_per_request")));
  EXPECT_THAT(Refused([](auto* r) { r->set_top_k(10001); }), HasSubstr("top_k: is 10001; must be at most 10000"));
  EXPECT_THAT(Refused([](auto* r) { r->set_missing_policy(static_cast<v1::MissingPolicy>(9)); }),
              HasSubstr("missing_policy: is 9"));
  EXPECT_THAT(Refused([](auto* r) { r->set_priority(static_cast<v1::Priority>(-1)); }), HasSubstr("priority: is -1"));
  v1::RerankRequest longest = Valid();
  longest.set_request_id(std::string(256, 'x'));
  EXPECT_TRUE(Run(longest).ok());
}

TEST_F(ValidationTest, APageEndsWithinTheLimitOfResults) {
  v1::RerankRequest request = Valid();
  request.set_offset(9997);
  const auto translated = Run(request);
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_EQ(translated->job->queries[0].top_k, 10000);
  request.set_offset(9998);
  const absl::Status status = Run(request).status();
  EXPECT_EQ(status.message(), "offset: is 9998, so offset + top_k is 10001; must be at most 10000 (limits.max_top_k)");
  EXPECT_EQ(client::FieldOf(status), "offset");
  EXPECT_EQ(client::ReasonOf(status), client::kReasonLimitExceeded);
  EXPECT_EQ(client::LimitOf(status), 10000u);
  EXPECT_EQ(client::LimitKeyOf(status), "limits.max_top_k");
  request.clear_top_k();
  EXPECT_THAT(std::string(Run(request, {.default_top_k = 5}).status().message()),
              HasSubstr("offset: is 9998, so offset + top_k is 10003"));
  EXPECT_THAT(Refused([](auto* r) { r->set_offset(UINT32_MAX); }), HasSubstr("offset + top_k is 4294967298"));
}

TEST_F(ValidationTest, ALeastScoreIsFinite) {
  EXPECT_EQ(Refused([](auto* r) { r->set_min_score(std::numeric_limits<float>::infinity()); }),
            "min_score: is inf; must be finite");
  EXPECT_EQ(Refused([](auto* r) { r->set_min_score(-std::numeric_limits<float>::infinity()); }),
            "min_score: is -inf; must be finite");
  EXPECT_EQ(Refused([](auto* r) { r->set_min_score(std::nanf("")); }), "min_score: is nan; must be finite");
  v1::RerankRequest request = Valid();
  request.set_min_score(-std::numeric_limits<float>::max());
  EXPECT_TRUE(Run(request).ok());
}

TEST_F(ValidationTest, DocumentsToScoreReachTheEndOfThePage) {
  v1::RerankRequest request = Valid();
  request.set_offset(10);
  request.mutable_refinement()->set_documents(13);
  EXPECT_TRUE(Run(request).ok());
  request.mutable_refinement()->set_documents(12);
  EXPECT_EQ(Run(request).status().message(), "refinement.documents: is 12; must be at least offset + top_k, 13");
}

TEST_F(ValidationTest, TheShapeOfAQueryIsChecked) {
  const auto tokens = [](v1::RerankRequest* r) { return r->mutable_queries(1)->mutable_tokens(); };
  EXPECT_THAT(Refused([&](auto* r) { r->mutable_queries(1)->clear_tokens(); }),
              HasSubstr("queries[1].tokens.dtype: is 0"));
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->set_dtype(v1::DATA_TYPE_I8); }),
              HasSubstr("queries[1].tokens.dtype: is 4"));
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->set_dtype(static_cast<v1::DataType>(77)); }),
              HasSubstr("dtype: is 77"));
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->set_num_tokens(0); }),
              HasSubstr("queries[1].tokens.num_tokens: is 0; must be 1 to 4096 (limits.max_query_tokens)"));
  EXPECT_THAT(Refused([](auto*) {}, {.max_query_tokens = 4}),
              HasSubstr("queries[1].tokens.num_tokens: is 5; must be 1 to 4"));
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->set_dim(17); }),
              HasSubstr("queries[1].tokens.dim: is 17, but the collection's dimension is 16"));
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->mutable_data()->pop_back(); }),
              HasSubstr("queries[1].tokens.data: has 319 bytes, but num_tokens x dim elements are 320 bytes"));
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->mutable_data()->push_back('x'); }), HasSubstr("has 321 bytes"));
  // 2^32 - 1 tokens of 16 columns would be 2^38 bytes. The limit must refuse them before a computation can overflow.
  EXPECT_THAT(Refused([&](auto* r) { tokens(r)->set_num_tokens(UINT32_MAX); }), HasSubstr("is 4294967295"));
}

TEST_F(ValidationTest, UnusableValuesNameTheirPlace) {
  const auto with = [](size_t idx, float value) {
    return [=](v1::RerankRequest* r) { test::SetElement(idx, value, r->mutable_queries(1)->mutable_tokens()); };
  };
  EXPECT_THAT(Refused(with(0, std::nanf(""))), HasSubstr("queries[1].tokens.data: holds nan at row 0, column 0"));
  EXPECT_THAT(Refused(with(79, std::numeric_limits<float>::infinity())), HasSubstr("holds inf at row 4, column 15"));
  EXPECT_THAT(Refused(with(18, -2e12F)),
              HasSubstr("at row 1, column 2; values must be finite and their magnitude at most 1e+12"));
  // This value is finite in the type that is sent, but becomes infinite in the collection's storage type.
  EXPECT_THAT(Refused(with(18, 65520.0F)), AllOf(HasSubstr("holds 65520 at row 1, column 2"), HasSubstr("overflows"),
                                                 HasSubstr("f16"), HasSubstr("65504")));
  v1::RerankRequest largest = Valid();
  test::SetElement(18, 65519.0F, largest.mutable_queries(1)->mutable_tokens());
  EXPECT_TRUE(Run(largest).ok());
}

TEST_F(ValidationTest, WeightsMustMatchTheTokensAndBeUsable) {
  const auto weights = [](std::vector<float> values) {
    return
        [=](v1::RerankRequest* r) { r->mutable_queries(0)->mutable_weights()->Assign(values.begin(), values.end()); };
  };
  EXPECT_EQ(Refused(weights({1, 1, 1})), "queries[0].weights: has 3 weights for 4 tokens");
  EXPECT_THAT(Refused(weights({1, 1, 1, std::nanf("")})), HasSubstr("queries[0].weights[3]: is nan"));
  EXPECT_THAT(Refused(weights({1, -1.1e6F, 1, 1})),
              HasSubstr("queries[0].weights[1]: is -1.1e+06; weights must be finite"));
  v1::RerankRequest request = Valid();
  weights({0, -1e6F, 1e6F, 0.5F})(&request);
  EXPECT_TRUE(Run(request).ok());
}

TEST_F(ValidationTest, CandidatesMustBeThereAndOfTheCollectionsKind) {
  EXPECT_EQ(Refused([](auto* r) { r->clear_candidates(); }),
            "candidates: is not set, and queries[0] has none of its own");
  EXPECT_THAT(Refused([](auto* r) { r->mutable_candidates()->Clear(); }),
              HasSubstr("candidates: names none of string_ids"));
  EXPECT_THAT(Refused([](auto* r) { r->mutable_candidates()->mutable_string_ids()->clear_ids(); }),
              HasSubstr("candidates.string_ids.ids: has 0 ids"));
  EXPECT_THAT(Refused([](auto*) {}, {.max_candidates_per_query = 2}),
              AllOf(HasSubstr("candidates.string_ids.ids: has 3 ids; must have 1 to 2"),
                    HasSubstr("max_candidates_per_query")));
  EXPECT_THAT(Refused([](auto* r) { r->mutable_candidates()->mutable_int_ids()->add_ids(1); }),
              HasSubstr("candidates.int_ids: the ids of collection corpus are of type string"));
  EXPECT_THAT(Refused([](auto* r) { r->mutable_candidates()->mutable_string_ids()->set_ids(1, ""); }),
              HasSubstr("candidates.string_ids.ids[1]: has 0 bytes; must have 1 to 512"));
  EXPECT_THAT(
      Refused([](auto* r) { r->mutable_candidates()->mutable_string_ids()->set_ids(2, std::string(513, 'x')); }),
      HasSubstr("candidates.string_ids.ids[2]: has 513 bytes"));
  EXPECT_THAT(Refused([](auto* r) { r->mutable_queries(1)->mutable_candidates()->mutable_string_ids(); }),
              HasSubstr("queries[1].candidates.string_ids.ids: has 0 ids"));
  v1::RerankRequest strings_for_ints = Valid();
  const auto status = Translate(strings_for_ints, world_->ints, {}).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("candidates.string_ids: the ids of collection corpus are of type int64"));
}

TEST_F(ValidationTest, InlineDocumentsAreCheckedLikeQueries) {
  const auto with_documents = [](const std::function<void(v1::InlineDocuments*)>& change) {
    return [=](v1::RerankRequest* r) {
      auto* documents = r->mutable_candidates()->mutable_inline_documents();
      for (int i = 0; i < 3; ++i) {
        *documents->add_documents() = test::ToProto(test::RandomTokens(9, ScalarType::kF32, kDim, 2));
      }
      change(documents);
    };
  };
  EXPECT_THAT(Refused(with_documents([](auto* d) { d->clear_documents(); })),
              HasSubstr("candidates.inline_documents.documents: has 0 documents"));
  // In the F16 collection, 2 tokens of 16 columns take 64 bytes, whatever type the client sends.
  EXPECT_THAT(
      Refused(with_documents([](auto*) {}), {.max_staged_bytes = 63}),
      AllOf(HasSubstr("candidates.inline_documents.documents["), HasSubstr("].num_tokens: is "),
            HasSubstr(" bytes in the collection's storage type f16; must be at most 63 (engine.max_staged_bytes)")));
  EXPECT_THAT(Refused(with_documents([](auto*) {}), {.max_inline_documents = 2}),
              AllOf(HasSubstr("has 3 documents; must have 1 to 2"), HasSubstr("limits.max_inline_documents")));
  EXPECT_THAT(Refused(with_documents([](auto* d) { d->mutable_documents(2)->set_dim(8); })),
              HasSubstr("candidates.inline_documents.documents[2].dim: is 8"));
  EXPECT_THAT(Refused(with_documents([](auto*) {}), {.max_document_tokens = 1}),
              AllOf(HasSubstr("documents[0].num_tokens: is 2"), HasSubstr("limits.max_document_tokens")));
  EXPECT_THAT(Refused(with_documents([](auto* d) { test::SetElement(31, 1e9F, d->mutable_documents(1)); })),
              AllOf(HasSubstr("documents[1].data: holds 1e+09 at row 1, column 15"), HasSubstr("overflows")));
}

TEST_F(ValidationTest, TheWorkOfARequestIsBoundedWithoutWrapping) {
  const uint64_t tokens = world_->strings->num_tokens();
  v1::RerankRequest whole = Valid();
  whole.mutable_candidates()->mutable_whole_collection();
  EXPECT_TRUE(Run(whole, {.max_request_work = 9 * tokens}).ok());
  const absl::Status status = Run(whole, {.max_request_work = 9 * tokens - 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("queries: ask for " + std::to_string(9 * tokens)), HasSubstr("limits.max_request_work")));
}

TEST_F(ValidationTest, AlignmentsAreBounded) {
  v1::RerankRequest request = Valid();
  request.set_return_alignments(true);
  EXPECT_TRUE(Run(request, {.max_alignments = 27}).ok());
  const absl::Status status = Run(request, {.max_alignments = 26}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("return_alignments: asks for 27 token matches"));
}

TEST_F(ValidationTest, UnknownIdsFailOnlyWhenTheRequestSaysSo) {
  v1::RerankRequest request = Valid();
  request.mutable_candidates()->mutable_string_ids()->add_ids("nobody");
  EXPECT_TRUE(Run(request).ok());
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Run(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("candidates: 1 of 4 ids are unknown, the first is \"nobody\""));
}

}  // namespace
}  // namespace maxsim::service
