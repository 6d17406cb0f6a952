// Tests the server's answers over gRPC: results and errors.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RerankServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new RunningServer; }
  static void TearDownTestSuite() { delete server_; }

  static std::vector<int64_t> AllOrdinals() {
    std::vector<int64_t> ordinals;
    for (int64_t i = 0; i < kNumDocuments; ++i) ordinals.push_back(i);
    return ordinals;
  }

  static v1::RerankResponse Answer(const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_code() << " " << status.error_message();
    return response;
  }

  static RunningServer* server_;
};
RunningServer* RerankServiceTest::server_ = nullptr;

TEST_F(RerankServiceTest, ScoresAreThoseOfFp64ForQueriesOfManySizes) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const int32_t tokens : {1, 31, 32, 33, 100}) {
    const RandomQuery query = MakeQuery(TestSeed() + static_cast<uint64_t>(tokens), ScalarType::kF16, kDim, tokens);
    for (const uint32_t top_k : {1U, 10U, 500U}) {
      const v1::RerankResponse response = Answer(MakeRequest("corpus", query, AllIds(), top_k));
      ASSERT_EQ(response.results_size(), 1);
      EXPECT_EQ(WrongAnswer(server_->documents(), query, AllOrdinals(), top_k, response.results(0)), "")
          << tokens << " tokens, top " << top_k;
      EXPECT_EQ(response.generation(), 1u);
      EXPECT_GT(response.timings().total_us(), 0);
    }
  }
}

TEST_F(RerankServiceTest, TheWholeCollectionWeightsAndSeveralQueriesWork) {
  RandomQuery weighted = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 7);
  weighted.weights = MixedWeights(TestSeed(), 7);
  const RandomQuery plain = MakeQuery(TestSeed() + 2, ScalarType::kF16, kDim, 9);
  v1::RerankRequest request = MakeRequest("corpus", weighted, {}, 20);
  AddQuery(plain, &request);
  request.mutable_candidates()->mutable_whole_collection();
  request.set_request_id("two");
  const v1::RerankResponse response = Answer(request);
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(response.request_id(), "two");
  EXPECT_EQ(WrongAnswer(server_->documents(), weighted, AllOrdinals(), 20, response.results(0)), "");
  EXPECT_EQ(WrongAnswer(server_->documents(), plain, AllOrdinals(), 20, response.results(1)), "");
}

TEST_F(RerankServiceTest, UnknownIdsAreListedAndDuplicatesCollapse) {
  const RandomQuery query = MakeQuery(TestSeed() + 3, ScalarType::kF16, kDim, 5);
  v1::RerankRequest request =
      MakeRequest("corpus", query, {"nobody", "doc-5", "doc-9", "doc-5", "nothing", "doc-150"}, 10);
  const v1::RerankResponse response = Answer(request);
  EXPECT_EQ(WrongAnswer(server_->documents(), query, {-1, 5, 9, 5, -1, 150}, 10, response.results(0)), "");
  EXPECT_THAT(response.results(0).missing_string_ids().ids(), ElementsAre("nobody", "nothing"));

  const v1::RerankResponse none = Answer(MakeRequest("corpus", query, {"nobody"}, 10));
  EXPECT_EQ(none.results(0).scores_size(), 0);
  EXPECT_THAT(none.results(0).missing_string_ids().ids(), ElementsAre("nobody"));
  EXPECT_EQ(none.generation(), 1u);
}

TEST_F(RerankServiceTest, InlineDocumentsAreScored) {
  const RandomDocuments documents = SmallDocuments(TestSeed() + 4, 7, ScalarType::kF16, kDim);
  const RandomQuery query = MakeQuery(TestSeed() + 5, ScalarType::kF16, kDim, 6);
  v1::RerankRequest request = MakeRequest("corpus", query, {}, 5);
  std::vector<int64_t> ordinals;
  for (int64_t i = 0; i < documents.num_documents(); ++i) {
    TokenMatrix one(ScalarType::kF16, kDim, documents.length(i));
    for (int64_t t = 0; t < documents.length(i); ++t)
      one.CopyRow(documents.tokens, documents.offsets[static_cast<size_t>(i)] + t, t);
    *request.mutable_candidates()->mutable_inline_documents()->add_documents() = ToProto(one);
    ordinals.push_back(i);
  }
  const v1::RerankResponse response = Answer(request);
  EXPECT_EQ(WrongAnswer(documents, query, ordinals, 5, response.results(0), ""), "");
  EXPECT_EQ(response.results(0).ids_case(), v1::QueryResult::IDS_NOT_SET);
}

TEST_F(RerankServiceTest, PayloadsAndAlignmentsComeOnRequest) {
  const RandomQuery query = MakeQuery(TestSeed() + 6, ScalarType::kF16, kDim, 6);
  v1::RerankRequest request = MakeRequest("corpus", query, {"doc-17", "doc-4"}, 2);
  request.set_return_payloads(true);
  request.set_return_alignments(true);
  const v1::QueryResult result = Answer(request).results(0);
  ASSERT_EQ(result.payloads_size(), 2);
  ASSERT_EQ(result.alignments_size(), 2);
  for (int hit = 0; hit < 2; ++hit) {
    const int64_t document = result.positions(hit) == 0 ? 17 : 4;
    EXPECT_EQ(result.payloads(hit), "{\"n\":" + std::to_string(document) + "}");
    ASSERT_EQ(result.alignments(hit).document_tokens_size(), 6);
    double sum = 0;
    for (int t = 0; t < 6; ++t) {
      EXPECT_LT(result.alignments(hit).document_tokens(t), server_->documents().length(document));
      sum += static_cast<double>(result.alignments(hit).similarities(t));
    }
    EXPECT_NEAR(sum, static_cast<double>(result.scores(hit)), 1e-4);
  }
}

TEST_F(RerankServiceTest, MembersOfPayloadsAndMeansComeOnRequest) {
  const RandomQuery query = MakeQuery(TestSeed() + 6, ScalarType::kF16, kDim, 6);
  v1::RerankRequest request = MakeRequest("corpus", query, {"doc-17", "doc-4"}, 2);
  const v1::QueryResult sums = Answer(request).results(0);
  request.set_normalize(true);
  request.add_payload_fields("n");
  const v1::QueryResult means = Answer(request).results(0);
  ASSERT_EQ(means.payloads_size(), 2);
  for (int hit = 0; hit < 2; ++hit) {
    EXPECT_EQ(means.string_ids().ids(hit), sums.string_ids().ids(hit));
    EXPECT_EQ(means.scores(hit), sums.scores(hit) / 6.0F);
    EXPECT_EQ(means.payloads(hit), means.positions(hit) == 0 ? "{\"n\":17}" : "{\"n\":4}");
  }
  request.set_payload_fields(0, "other");
  EXPECT_EQ(Answer(request).results(0).payloads(0), "{}");
  request.set_payload_fields(0, "");
  v1::RerankResponse response;
  EXPECT_EQ(server_->Rerank(request, &response).error_message(), "payload_fields[0]: has 0 bytes; must have 1 to 256");
}

TEST_F(RerankServiceTest, RepeatingARequestGivesTheSameBits) {
  const v1::RerankRequest request =
      MakeRequest("corpus", MakeQuery(TestSeed() + 7, ScalarType::kF16, kDim, 12), AllIds(), 50);
  const std::string first = Answer(request).results(0).SerializeAsString();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Answer(request).results(0).SerializeAsString(), first);
}

TEST_F(RerankServiceTest, WrongRequestsGetTheirCodeAndTheFieldsName) {
  struct Case {
    std::function<void(v1::RerankRequest*)> change;
    grpc::StatusCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](auto* r) { r->clear_collection(); }, grpc::INVALID_ARGUMENT, "collection"},
      {[](auto* r) { r->set_collection("other"); }, grpc::NOT_FOUND, "other"},
      {[](auto* r) { r->clear_queries(); }, grpc::INVALID_ARGUMENT, "queries: has 0"},
      {[](auto* r) { r->set_top_k(20000); }, grpc::INVALID_ARGUMENT, "top_k: is 20000"},
      {[](auto* r) { r->mutable_queries(0)->mutable_tokens()->set_dim(31); }, grpc::INVALID_ARGUMENT,
       "queries[0].tokens.dim"},
      {[](auto* r) { r->mutable_queries(0)->mutable_tokens()->clear_data(); }, grpc::INVALID_ARGUMENT,
       "queries[0].tokens.data"},
      {[](auto* r) { (*r->mutable_queries(0)->mutable_tokens()->mutable_data())[1] = '\x7c'; }, grpc::INVALID_ARGUMENT,
       "queries[0].tokens.data: holds"},
      {[](auto* r) { r->mutable_queries(0)->add_weights(1); }, grpc::INVALID_ARGUMENT, "queries[0].weights"},
      {[](auto* r) { r->clear_candidates(); }, grpc::INVALID_ARGUMENT, "candidates"},
      {[](auto* r) { r->mutable_candidates()->mutable_int_ids()->add_ids(1); }, grpc::INVALID_ARGUMENT,
       "candidates.int_ids"},
      {[](auto* r) {
         r->mutable_candidates()->mutable_string_ids()->add_ids("x");
         r->set_missing_policy(v1::MISSING_POLICY_FAIL);
       },
       grpc::NOT_FOUND, "\"x\""},
  };
  for (const Case& one : cases) {
    v1::RerankRequest request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 3), {"doc-1"}, 5);
    one.change(&request);
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_EQ(status.error_code(), one.code) << one.text << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(one.text));
  }
}

TEST_F(RerankServiceTest, AMessageThatIsNoRequestIsAnInvalidArgument) {
  v1::RerankRequest request =
      MakeRequest("corpus", MakeQuery(TestSeed(), ScalarType::kF16, kDim, 2), {"doc-1", "\xff\xfe"}, 5);
  v1::RerankResponse response;
  const grpc::Status status = server_->Rerank(request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("is not a maxsim.v1.RerankRequest"), HasSubstr("one of its strings is not UTF-8")));
}

TEST_F(RerankServiceTest, GetInfoTellsVersionLimitsDevicesAndCollections) {
  grpc::ClientContext context;
  v1::GetInfoResponse info;
  ASSERT_TRUE(server_->stub().GetInfo(&context, {}, &info).ok());
  EXPECT_FALSE(info.version().empty());
  EXPECT_FALSE(info.commit().empty());
  EXPECT_EQ(info.limits().max_top_k(), 10000u);
  EXPECT_EQ(info.limits().default_top_k(), 10u);
  EXPECT_EQ(info.limits().max_alignments(), uint64_t{1} << 22);
  ASSERT_EQ(info.devices_size(), 1);
  EXPECT_EQ(info.devices(0).backend(), "cpu");
  EXPECT_GT(info.devices(0).free_bytes(), 0u);
  ASSERT_EQ(info.collections_size(), 1);
  const v1::CollectionInfo& collection = info.collections(0);
  EXPECT_EQ(collection.name(), "corpus");
  EXPECT_EQ(collection.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(collection.dim(), static_cast<uint32_t>(kDim));
  EXPECT_EQ(collection.storage(), v1::DATA_TYPE_F16);
  EXPECT_EQ(collection.num_documents(), static_cast<uint64_t>(kNumDocuments));
  EXPECT_GT(collection.num_shards(), 1u);
  EXPECT_TRUE(collection.has_payloads());
  EXPECT_GT(collection.loaded_at_unix_seconds(), 1.6e9);
}

TEST_F(RerankServiceTest, GetInfoTellsTheZone) {
  RunningServer server([](config::Config* config) { config->cluster.zone = "eu-west-1a"; });
  grpc::ClientContext context;
  v1::GetInfoResponse info;
  ASSERT_TRUE(server.stub().GetInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.zone(), "eu-west-1a");
}

TEST_F(RerankServiceTest, ACompressedRequestIsRefusedAndTheServerLivesOn) {
  // Zeros compress well. gRPC compresses a message only if that makes it smaller.
  v1::RerankRequest request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
  v1::TokenMatrix& document = *request.mutable_candidates()->mutable_inline_documents()->add_documents();
  document.set_dtype(v1::DATA_TYPE_F16);
  document.set_num_tokens(1000);
  document.set_dim(kDim);
  document.set_data(std::string(1000 * kDim * 2, '\0'));
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::RerankResponse response;
    const grpc::Status status = server_->stub().Rerank(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("ompression"));
  }
  v1::RerankResponse response;
  const grpc::Status plain = server_->Rerank(request, &response);
  EXPECT_TRUE(plain.ok()) << plain.error_message();
}

TEST_F(RerankServiceTest, HealthAnswersForTheServerAndEachService) {
  for (const char* name : {"", "maxsim.v1.Reranker", "maxsim.v1.Admin"}) {
    EXPECT_EQ(HealthOf(server_->channel(), name), Health::kServing) << name;
  }
  EXPECT_EQ(HealthOf(server_->channel(), "maxsim.v1.Nothing"), Health::kUnknown);
}

TEST(RerankLimitsTest, AnAnswerTooLargeToSendIsRefused) {
  RunningServer server([](config::Config* config) { config->limits.max_answer_bytes = 60; });
  v1::RerankRequest request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1", "doc-2"}, 5);
  request.set_return_payloads(true);
  v1::RerankResponse response;
  const grpc::Status refused = server.Rerank(request, &response);
  EXPECT_EQ(refused.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("return_payloads: the results and their payloads take "));
  request.set_top_k(1);
  const grpc::Status accepted = server.Rerank(request, &response);
  EXPECT_TRUE(accepted.ok()) << accepted.error_message();
  EXPECT_EQ(response.results(0).payloads_size(), 1);
}

TEST(RerankLimitsTest, AnInlineDocumentThatTheEngineHasNoRoomForIsRefusedBeforeItIsQueued) {
  RunningServer server([](config::Config* config) { config->engine.executor.max_staged_bytes = 1 << 20; });
  v1::RerankRequest request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {}, 5);
  v1::TokenMatrix& document = *request.mutable_candidates()->mutable_inline_documents()->add_documents();
  const auto resize = [&](uint32_t num_tokens) {
    document.set_dtype(v1::DATA_TYPE_F16);
    document.set_num_tokens(num_tokens);
    document.set_dim(kDim);
    document.set_data(std::string(size_t{num_tokens} * kDim * 2, '\0'));
  };
  v1::RerankResponse response;
  resize((1 << 20) / (kDim * 2));
  const grpc::Status fits = server.Rerank(request, &response);
  EXPECT_TRUE(fits.ok()) << fits.error_message();
  resize((1 << 20) / (kDim * 2) + 1);
  const grpc::Status refused = server.Rerank(request, &response);
  EXPECT_EQ(refused.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(),
            "candidates.inline_documents.documents[0].num_tokens: is 16385, which is 1048640 bytes in the collection's "
            "storage type f16; must be at most 1048576 (engine.max_staged_bytes)");
}

}  // namespace
}  // namespace maxsim::test
