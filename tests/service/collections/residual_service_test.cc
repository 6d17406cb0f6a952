// Tests a collection of residual codes over gRPC and HTTP. Scores, with the collection in memory or in files, must
// equal FP64 scores of the decoded vectors. Also tests documents in requests, reads of documents, and that the
// collection cannot be live.
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/residual_codes.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;

constexpr ScalarType kType = ScalarType::kResidual4;

class ResidualServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new RunningServer(nullptr, nullptr, kType); }
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

  // Returns the decoded vectors of a document, [tokens, dim].
  static std::vector<float> Decoded(int64_t document) {
    const RandomDocuments& documents = server_->documents();
    const ResidualDecoder decoder(kType, kDim, documents.view().codebook);
    std::vector<float> vectors(static_cast<size_t>(documents.length(document) * kDim));
    for (int64_t token = 0; token < documents.length(document); ++token) {
      decoder.DecodeRow(documents.tokens.row(documents.offsets[static_cast<size_t>(document)] + token),
                        vectors.data() + token * kDim);
    }
    return vectors;
  }

  static RunningServer* server_;
};
RunningServer* ResidualServiceTest::server_ = nullptr;

TEST_F(ResidualServiceTest, ScoresAreThoseOfFp64OfWhatIsStored) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  for (const int32_t tokens : {1, 32, 33, 100}) {
    RandomQuery query = MakeQuery(TestSeed() + static_cast<uint64_t>(tokens), kType, kDim, tokens);
    if (tokens == 33) query.weights = MixedWeights(TestSeed(), tokens);
    const v1::RerankResponse listed = Answer(*server_, MakeRequest("corpus", query, AllIds(), 10));
    EXPECT_EQ(WrongAnswer(server_->documents(), query, AllOrdinals(), 10, listed.results(0)), "") << tokens;
    v1::RerankRequest request = MakeRequest("corpus", query, {}, 10);
    request.mutable_candidates()->mutable_whole_collection();
    const v1::RerankResponse whole = Answer(*server_, request);
    EXPECT_EQ(WrongAnswer(server_->documents(), query, AllOrdinals(), 10, whole.results(0)), "") << tokens;
  }
}

TEST_F(ResidualServiceTest, FromTheFilesToo) {
  RunningServer server([](config::Config* config) { config->collections[0].residency = store::Residency::kDisk; },
                       nullptr, kType);
  const RandomQuery query = MakeQuery(TestSeed() + 8, kType, kDim, 12);
  const v1::RerankResponse disk = Answer(server, MakeRequest("corpus", query, AllIds(), 50));
  const v1::RerankResponse host = Answer(*server_, MakeRequest("corpus", query, AllIds(), 50));
  EXPECT_EQ(disk.results(0).SerializeAsString(), host.results(0).SerializeAsString());
}

// Documents in requests are F16 vectors, although the collection stores codes.
TEST_F(ResidualServiceTest, DocumentsInRequestsAreScoredAsHalves) {
  const RandomQuery query = MakeQuery(TestSeed() + 7, kType, kDim, 17);
  const RandomDocuments halves = ServedDocuments(TestSeed(), ScalarType::kF16);
  v1::RerankRequest request = MakeRequest("corpus", query, {}, kNumDocuments);
  for (int64_t i = 0; i < kNumDocuments; ++i) {
    TokenMatrix one(ScalarType::kF16, kDim, halves.length(i));
    for (int64_t token = 0; token < halves.length(i); ++token) {
      one.CopyRow(halves.tokens, halves.offsets[static_cast<size_t>(i)] + token, token);
    }
    *request.mutable_candidates()->mutable_inline_documents()->add_documents() = ToProto(one);
  }
  EXPECT_EQ(WrongAnswer(halves, query, AllOrdinals(), kNumDocuments, Answer(*server_, request).results(0), ""), "");
}

TEST_F(ResidualServiceTest, DocumentsAreReadAsDecodedVectors) {
  const auto documents = v1::Documents::NewStub(server_->channel());
  v1::GetRequest request;
  request.set_collection("corpus");
  request.set_return_tokens(true);
  for (const char* const id : {"doc-3", "doc-11"}) request.mutable_string_ids()->add_ids(id);
  v1::GetResponse response;
  grpc::ClientContext context;
  const grpc::Status status = documents->Get(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.documents_size(), 2);
  const int64_t ordinals[] = {3, 11};
  for (int idx = 0; idx < 2; ++idx) {
    const v1::TokenMatrix& tokens = response.documents(idx).tokens();
    EXPECT_EQ(tokens.dtype(), v1::DATA_TYPE_F32);
    EXPECT_EQ(tokens.dim(), static_cast<uint32_t>(kDim));
    const std::vector<float> wanted = Decoded(ordinals[idx]);
    ASSERT_EQ(tokens.data().size(), wanted.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(tokens.data().data(), wanted.data(), tokens.data().size()), 0);
  }
}

TEST_F(ResidualServiceTest, InfoMetricsAndHttpNameTheStorage) {
  v1::GetInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server_->stub().GetInfo(&context, {}, &info).ok());
  ASSERT_EQ(info.collections_size(), 1);
  EXPECT_EQ(info.collections(0).storage(), v1::DATA_TYPE_RESIDUAL_4);
  EXPECT_EQ(info.collections(0).token_bytes(),
            info.collections(0).num_tokens() * static_cast<uint64_t>(RowBytes(kType, kDim)));
  EXPECT_THAT(HttpGet(server_->http_port(), "/v1/collections").body, HasSubstr("\"storage\":\"residual4\""));
}

TEST_F(ResidualServiceTest, ACollectionOfItCannotBeLive) {
  RunningServer server([](config::Config* config) { config->allowed_roots = {testing::TempDir()}; });
  grpc::ClientContext context;
  v1::CreateCollectionRequest request;
  request.set_name("live");
  request.set_path(testing::TempDir() + "residual_live");
  request.set_dim(kDim);
  request.set_storage(v1::DATA_TYPE_RESIDUAL_4);
  v1::CreateCollectionResponse response;
  const grpc::Status status = server.admin().CreateCollection(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("residual4"));
}

}  // namespace
}  // namespace maxsim::test
