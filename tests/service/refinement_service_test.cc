// Compares collections with codes to the same collection without codes: searches by codes, exact answers and proofs,
// over gRPC and HTTP.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kTopK = 5;

// All three collections have the same documents: "corpus" has no codes, "coded" has codes of 4 bits per value, "signs"
// of 1.
class RefinementServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const RandomDocuments documents = ServedDocuments(TestSeed());
    for (const int planes : {1, 4}) {
      BuildCorpus(*folder_ / NameOf(planes), documents,
                  {.name = NameOf(planes),
                   .max_shard_bytes = collection::kMinMaxShardBytes,
                   .payloads = true,
                   .codes = {.planes = planes, .rotation_seed = 5}});
    }
    server_ = new RunningServer([](config::Config* config) {
      for (const int planes : {1, 4}) {
        config->collections.push_back(
            {.name = NameOf(planes), .path = *folder_ / NameOf(planes), .residency = store::Residency::kAuto});
      }
    });
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }
  static std::string NameOf(int planes) { return planes == 1 ? "signs" : "coded"; }

  static RandomQuery Query(uint64_t number) { return MakeQuery(TestSeed() + number, ScalarType::kF16, kDim, 7); }
  static v1::RerankRequest WholeOf(const std::string& collection, uint64_t number) {
    v1::RerankRequest request = MakeRequest(collection, Query(number), {}, kTopK);
    request.mutable_candidates()->mutable_whole_collection();
    return request;
  }
  static v1::RerankResponse Answer(const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_code() << " " << status.error_message();
    return response;
  }
  // Checks that ids, positions and the bits of scores are equal.
  static void ExpectSame(const v1::QueryResult& expected, const v1::QueryResult& actual) {
    v1::QueryResult bare = actual;
    bare.clear_refinement();
    EXPECT_EQ(expected.SerializeAsString(), bare.SerializeAsString());
  }

  static TemporaryFolder* folder_;
  static RunningServer* server_;
};
TemporaryFolder* RefinementServiceTest::folder_ = nullptr;
RunningServer* RefinementServiceTest::server_ = nullptr;

TEST_F(RefinementServiceTest, ProvenAnswersAreThoseOfTheCollectionWithoutCodes) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  int num_proven = 0;
  for (uint64_t number = 0; number < 20; ++number) {
    const v1::QueryResult exact = Answer(WholeOf("corpus", number)).results(0);
    EXPECT_FALSE(exact.has_refinement());
    v1::RerankRequest request = WholeOf("coded", number);
    request.mutable_refinement()->set_documents(20);
    request.mutable_refinement()->set_budget(kNumDocuments - 1);
    request.mutable_refinement()->set_require_proof(true);
    const v1::QueryResult answer = Answer(request).results(0);
    ASSERT_TRUE(answer.has_refinement());
    EXPECT_EQ(answer.refinement().planes(), 4u);
    EXPECT_TRUE(answer.refinement().outside_is_bound());
    EXPECT_GE(answer.refinement().documents(), 20u);
    if (answer.refinement().certificate() != v1::CERTIFICATE_PROVEN) continue;
    ++num_proven;
    EXPECT_GT(answer.refinement().margin(), 0);
    ExpectSame(exact, answer);
  }
  EXPECT_GT(num_proven, 0);
}

TEST_F(RefinementServiceTest, FewCandidatesAreScoredWithoutAScan) {
  for (const char* name : {"coded", "signs"}) {
    const v1::QueryResult whole = Answer(WholeOf("corpus", 1)).results(0);
    // By default, 1,000 + 20 * top_k documents are scored exactly, which is more than the collection has. So codes are
    // not used.
    const v1::QueryResult by_default = Answer(WholeOf(name, 1)).results(0);
    EXPECT_FALSE(by_default.has_refinement());
    ExpectSame(whole, by_default);
    v1::RerankRequest list = MakeRequest(name, Query(1), {"doc-5", "nobody", "doc-9", "doc-150"}, 3);
    list.mutable_refinement()->set_documents(3);
    const v1::QueryResult listed = Answer(list).results(0);
    EXPECT_FALSE(listed.has_refinement());
    list.set_collection("corpus");
    ExpectSame(Answer(list).results(0), listed);
  }
}

TEST_F(RefinementServiceTest, ListsAndSeveralQueriesAreScanned) {
  v1::RerankRequest request = MakeRequest("signs", Query(3), AllIds(), kTopK);
  AddQuery(Query(4), &request);
  request.mutable_queries(1)->mutable_candidates()->mutable_string_ids()->add_ids("doc-3");
  request.mutable_refinement()->set_documents(30);
  request.set_normalize(true);
  request.set_return_payloads(true);
  const v1::RerankResponse response = Answer(request);
  const v1::QueryResult& scanned = response.results(0);
  EXPECT_EQ(scanned.refinement().planes(), 1u);
  EXPECT_EQ(scanned.refinement().documents(), 30u);
  EXPECT_EQ(scanned.refinement().certificate(), v1::CERTIFICATE_NOT_PROVEN);
  EXPECT_FALSE(scanned.refinement().outside_is_bound());
  EXPECT_FLOAT_EQ(scanned.refinement().margin(), scanned.scores(kTopK - 1) - scanned.refinement().outside_score());
  EXPECT_FALSE(response.results(1).has_refinement());
  // Each hit has the same score as in a rerank call that names it.
  for (int hit = 0; hit < scanned.scores_size(); ++hit) {
    v1::RerankRequest one = MakeRequest("corpus", Query(3), {scanned.string_ids().ids(hit)}, 1);
    one.set_normalize(true);
    EXPECT_EQ(Answer(one).results(0).scores(0), scanned.scores(hit));
    EXPECT_EQ(AllIds()[scanned.positions(hit)], scanned.string_ids().ids(hit));
  }
}

TEST_F(RefinementServiceTest, WrongFieldsAreNamed) {
  for (const char* name : {"coded", "corpus"}) {
    v1::RerankRequest request = WholeOf(name, 1);
    request.mutable_refinement()->set_documents(kTopK - 1);
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("refinement.documents: is 4"));
  }
}

TEST_F(RefinementServiceTest, HttpSaysTheSame) {
  json query = json::array();
  const RandomQuery random = Query(5);
  for (int64_t token = 0; token < random.tokens.num_tokens(); ++token) query.push_back(random.tokens.Row(token));
  json body = {
      {"model", "coded"}, {"query", query}, {"documents", "*"}, {"top_n", kTopK}, {"refinement", {{"documents", 50}}}};
  const HttpAnswer answer = HttpPost(server_->http_port(), "/v1/rerank", body.dump(), "application/json");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json parsed = json::parse(answer.body);
  v1::RerankRequest request = WholeOf("coded", 5);
  request.mutable_refinement()->set_documents(50);
  const v1::QueryResult expected = Answer(request).results(0);
  EXPECT_EQ(parsed["refinement"]["planes"], 4);
  EXPECT_EQ(parsed["refinement"]["documents"], 50);
  EXPECT_EQ(parsed["refinement"]["certificate"],
            expected.refinement().certificate() == v1::CERTIFICATE_PROVEN ? "PROVEN" : "NOT_PROVEN");
  EXPECT_FLOAT_EQ(parsed["refinement"]["margin"].get<float>(), expected.refinement().margin());
  EXPECT_EQ(parsed["results"][0]["id"], expected.string_ids().ids(0));

  body["refinement"]["documents"] = 2;
  const HttpAnswer refused = HttpPost(server_->http_port(), "/v1/rerank", body.dump(), "application/json");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json::parse(refused.body)["error"]["field"], "refinement.documents");
  body["refinement"] = nullptr;
  EXPECT_FALSE(json::parse(HttpPost(server_->http_port(), "/v1/rerank", body.dump(), "application/json").body)
                   .contains("refinement"));
}

TEST_F(RefinementServiceTest, InfoAndMetricsCountIt) {
  v1::GetInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server_->stub().GetInfo(&context, {}, &info).ok());
  for (const v1::CollectionInfo& collection : info.collections()) {
    EXPECT_EQ(collection.code_planes(), collection.name() == "coded" ? 4u : collection.name() == "signs" ? 1u : 0u);
  }
  v1::RerankRequest request = WholeOf("signs", 7);
  request.mutable_refinement()->set_documents(40);
  Answer(request);
  const std::string metrics = server_->server().metrics().Expose();
  EXPECT_THAT(metrics, AllOf(HasSubstr("maxsim_scans_total{planes=\"1\"}"), HasSubstr("maxsim_refined_documents_total"),
                             HasSubstr("maxsim_certificates_total{certificate=\"not_proven\"}"),
                             HasSubstr("maxsim_scan_duration_seconds_count")));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("maxsim_scans_total{planes=\"1\"} 0\n")));
}

}  // namespace
}  // namespace maxsim::test
