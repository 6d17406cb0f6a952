// Tests an i8 collection over gRPC and HTTP: compares scores with FP64 of the stored vectors, and tests documents in
// requests, reloads, and the collection's description.
#include <bit>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;

class I8ServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new RunningServer(nullptr, nullptr, ScalarType::kI8); }
  static void TearDownTestSuite() { delete server_; }

  static std::vector<int64_t> AllOrdinals() {
    std::vector<int64_t> ordinals;
    for (int64_t i = 0; i < kNumDocuments; ++i) ordinals.push_back(i);
    return ordinals;
  }

  static v1::RerankResponse Answer(RunningServer& server, const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server.Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_code() << " " << status.error_message();
    return response;
  }

  // Returns a document's original vectors, as a client would send them.
  static v1::TokenMatrix Original(const RandomDocuments& values, int64_t document) {
    TokenMatrix one(ScalarType::kF32, kDim, values.length(document));
    for (int64_t token = 0; token < values.length(document); ++token) {
      one.CopyRow(values.tokens, values.offsets[static_cast<size_t>(document)] + token, token);
    }
    return ToProto(one);
  }

  static RunningServer* server_;
};
RunningServer* I8ServiceTest::server_ = nullptr;

TEST_F(I8ServiceTest, ScoresAreThoseOfFp64OfWhatIsStored) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const int32_t tokens : {1, 32, 33, 100}) {
    RandomQuery query = MakeQuery(TestSeed() + static_cast<uint64_t>(tokens), ScalarType::kI8, kDim, tokens);
    if (tokens == 33) query.weights = MixedWeights(TestSeed(), tokens);
    for (const uint32_t top_k : {1U, 10U, 500U}) {
      const v1::RerankResponse listed = Answer(*server_, MakeRequest("corpus", query, AllIds(), top_k));
      EXPECT_EQ(WrongAnswer(server_->documents(), query, AllOrdinals(), top_k, listed.results(0)), "") << tokens;
      v1::RerankRequest request = MakeRequest("corpus", query, {}, top_k);
      request.mutable_candidates()->mutable_whole_collection();
      const v1::RerankResponse whole = Answer(*server_, request);
      EXPECT_EQ(WrongAnswer(server_->documents(), query, AllOrdinals(), top_k, whole.results(0)), "") << tokens;
    }
  }
}

TEST_F(I8ServiceTest, QueriesComeInEveryTypeAndAreNotRoundedFirst) {
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kBF16}) {
    const TokenMatrix sent = RandomTokens(TestSeed() + 3, type, kDim, 9);
    RandomQuery widened{TokenMatrix(ScalarType::kF32, kDim, 9), {}};
    for (int64_t token = 0; token < 9; ++token) widened.tokens.SetRow(token, sent.Row(token));
    const v1::RerankResponse narrow = Answer(*server_, MakeRequest("corpus", {sent, {}}, AllIds(), 20));
    EXPECT_EQ(WrongAnswer(server_->documents(), widened, AllOrdinals(), 20, narrow.results(0)), "");
    const v1::RerankResponse wide = Answer(*server_, MakeRequest("corpus", widened, AllIds(), 20));
    EXPECT_EQ(narrow.results(0).SerializeAsString(), wide.results(0).SerializeAsString());
  }
  v1::RerankRequest request = MakeRequest("corpus", MakeQuery(1, ScalarType::kI8, kDim, 2), {"doc-1"}, 1);
  request.mutable_queries(0)->mutable_tokens()->set_dtype(v1::DATA_TYPE_I8);
  v1::RerankResponse response;
  const grpc::Status status = server_->Rerank(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("queries[0].tokens.dtype: is 4"));
}

// A request carries a copy of a stored document. Both have the same score.
TEST_F(I8ServiceTest, AnInlineDocumentScoresTheBitsOfTheStoredOne) {
  const RandomDocuments values = ServedDocuments(TestSeed(), ScalarType::kF32);
  const RandomQuery query = MakeQuery(TestSeed() + 7, ScalarType::kI8, kDim, 17);
  const v1::RerankResponse stored = Answer(*server_, MakeRequest("corpus", query, AllIds(), kNumDocuments));
  v1::RerankRequest request = MakeRequest("corpus", query, {}, kNumDocuments);
  for (int64_t i = 0; i < kNumDocuments; ++i) {
    *request.mutable_candidates()->mutable_inline_documents()->add_documents() = Original(values, i);
  }
  const v1::RerankResponse sent = Answer(*server_, request);
  EXPECT_EQ(WrongAnswer(server_->documents(), query, AllOrdinals(), kNumDocuments, sent.results(0), ""), "");
  ASSERT_EQ(sent.results(0).scores_size(), kNumDocuments);
  ASSERT_EQ(stored.results(0).scores_size(), kNumDocuments);
  for (int rank = 0; rank < kNumDocuments; ++rank) {
    EXPECT_EQ(sent.results(0).positions(rank), stored.results(0).positions(rank));
    EXPECT_EQ(std::bit_cast<uint32_t>(sent.results(0).scores(rank)),
              std::bit_cast<uint32_t>(stored.results(0).scores(rank)));
  }
}

TEST_F(I8ServiceTest, AlignmentsAddUpToTheScore) {
  v1::RerankRequest request =
      MakeRequest("corpus", MakeQuery(TestSeed() + 6, ScalarType::kI8, kDim, 6), {"doc-17", "doc-4"}, 2);
  request.set_return_alignments(true);
  request.set_return_payloads(true);
  const v1::QueryResult result = Answer(*server_, request).results(0);
  ASSERT_EQ(result.alignments_size(), 2);
  for (int hit = 0; hit < 2; ++hit) {
    EXPECT_EQ(result.payloads(hit), result.positions(hit) == 0 ? "{\"n\":17}" : "{\"n\":4}");
    double sum = 0;
    for (const float similarity : result.alignments(hit).similarities()) sum += static_cast<double>(similarity);
    EXPECT_NEAR(sum, static_cast<double>(result.scores(hit)), 1e-4);
  }
}

TEST_F(I8ServiceTest, InfoMetricsAndHttpNameTheStorage) {
  v1::GetInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server_->stub().GetInfo(&context, {}, &info).ok());
  ASSERT_EQ(info.collections_size(), 1);
  EXPECT_EQ(info.collections(0).storage(), v1::DATA_TYPE_I8);
  EXPECT_EQ(info.collections(0).token_bytes(), info.collections(0).num_tokens() * kDim);
  EXPECT_THAT(HttpGet(server_->http_port(), "/metrics").body,
              HasSubstr("maxsim_collection_info{collection=\"corpus\",residency=\"host\",storage=\"i8\"} 1\n"));
  EXPECT_THAT(HttpGet(server_->http_port(), "/v1/collections").body, HasSubstr("\"storage\":\"i8\""));
  nlohmann::json rows = nlohmann::json::array();
  rows.push_back(std::vector<float>(kDim, 0.5F));
  const nlohmann::json body = {{"model", "corpus"}, {"query", rows}, {"documents", "*"}, {"top_n", 3}};
  const HttpAnswer answer = HttpPost(server_->http_port(), "/v1/rerank", body.dump(), "application/json");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(nlohmann::json::parse(answer.body)["results"].size(), 3u);
}

TEST_F(I8ServiceTest, FromTheFilesToo) {
  RunningServer server([](config::Config* config) { config->collections[0].residency = store::Residency::kDisk; },
                       nullptr, ScalarType::kI8);
  const RandomQuery query = MakeQuery(TestSeed() + 8, ScalarType::kI8, kDim, 12);
  const v1::RerankResponse disk = Answer(server, MakeRequest("corpus", query, AllIds(), 50));
  const v1::RerankResponse host = Answer(*server_, MakeRequest("corpus", query, AllIds(), 50));
  EXPECT_EQ(disk.results(0).SerializeAsString(), host.results(0).SerializeAsString());
}

TEST_F(I8ServiceTest, AReloadChangesTheStorage) {
  RunningServer server;
  const RandomQuery query = MakeQuery(TestSeed() + 9, ScalarType::kF16, kDim, 12);
  EXPECT_EQ(WrongAnswer(server.documents(), query, AllOrdinals(), 50,
                        Answer(server, MakeRequest("corpus", query, AllIds(), 50)).results(0)),
            "");
  const RandomDocuments values = ServedDocuments(TestSeed() + 1, ScalarType::kF32);
  Publish(server.folder(), values, ScalarType::kI8);
  grpc::ClientContext context;
  v1::ReloadCollectionRequest request;
  request.set_name("corpus");
  v1::ReloadCollectionResponse response;
  const grpc::Status status = server.admin().ReloadCollection(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  RandomQuery widened{TokenMatrix(ScalarType::kF32, kDim, 12), {}};
  for (int64_t token = 0; token < 12; ++token) widened.tokens.SetRow(token, query.tokens.Row(token));
  const v1::RerankResponse after = Answer(server, MakeRequest("corpus", query, AllIds(), 50));
  EXPECT_EQ(after.generation(), 2u);
  EXPECT_EQ(WrongAnswer(Stored(values, ScalarType::kI8), widened, AllOrdinals(), 50, after.results(0)), "");
  const std::string metrics = HttpGet(server.http_port(), "/metrics").body;
  EXPECT_THAT(metrics,
              HasSubstr("maxsim_collection_info{collection=\"corpus\",residency=\"host\",storage=\"i8\"} 1\n"));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("storage=\"f16\"")));
}

}  // namespace
}  // namespace maxsim::test
