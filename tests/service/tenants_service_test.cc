// Tests what the tokens of tenants may do and see, through both ports of a server.
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Serves "corpus", and "docs", of whose 12 documents every third is acme's.
class TenantsServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    CorpusOptions options;
    options.fields = *collection::ParseFields("owner:keyword");
    for (int i = 0; i < 12; ++i) {
      options.payload_texts.emplace_back(i % 3 == 0 ? R"({"owner":"acme"})" : R"({"owner":"other"})");
    }
    BuildCorpus(*folder_ / "docs", SmallDocuments(1, 12, ScalarType::kF16, kDim), options);
    WriteFile(*folder_ / "tokens", R"(plain
acme {"tenant": "acme", "collections": ["docs"], "filter": "owner = \"acme\""}
other {"tenant": "other", "collections": ["docs"], "filter": "owner = \"other\""}
poor {"tenant": "poor", "token_pairs_per_second": 1}
)");
    WriteFile(*folder_ / "admin_tokens", "operator\n");
    server_ = new RunningServer([](config::Config* config) {
      config->collections.push_back({.name = "docs", .path = *folder_ / "docs"});
      config->auth.tokens_file = *folder_ / "tokens";
      config->auth.admin_tokens_file = *folder_ / "admin_tokens";
    });
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }

  static std::unique_ptr<grpc::ClientContext> ContextOf(const std::string& token) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", "Bearer " + token);
    return context;
  }

  static absl::StatusOr<v1::RerankResponse> Rerank(const std::string& token, const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_->stub().Rerank(ContextOf(token).get(), request, &response);
    if (!status.ok()) return client::FromGrpcStatus(status);
    response.clear_timings();
    return response;
  }

  static v1::RerankRequest RequestFor(const std::string& collection, const std::vector<std::string>& ids) {
    v1::RerankRequest request = MakeRequest(collection, MakeQuery(7, ScalarType::kF16, kDim, 4), ids, /*top_k=*/20);
    if (ids.empty()) request.mutable_candidates()->mutable_whole_collection();
    return request;
  }

  static TemporaryFolder* folder_;
  static RunningServer* server_;
};
TemporaryFolder* TenantsServiceTest::folder_ = nullptr;
RunningServer* TenantsServiceTest::server_ = nullptr;

TEST_F(TenantsServiceTest, ASearchFindsTheTenantsDocumentsAlone) {
  const auto all = Rerank("plain", RequestFor("docs", {}));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->results(0).scores_size(), 12);
  const auto of_acme = Rerank("acme", RequestFor("docs", {}));
  const auto listed = Rerank("plain", RequestFor("docs", {"doc-0", "doc-3", "doc-6", "doc-9"}));
  ASSERT_TRUE(of_acme.ok() && listed.ok()) << of_acme.status() << listed.status();
  ASSERT_EQ(of_acme->results(0).scores_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(of_acme->results(0).string_ids().ids(i), listed->results(0).string_ids().ids(i));
    EXPECT_EQ(of_acme->results(0).scores(i), listed->results(0).scores(i));
    EXPECT_EQ(of_acme->results(0).positions(i), static_cast<uint64_t>(i));
  }
}

TEST_F(TenantsServiceTest, IdsOfOthersAndUnknownIdsGiveTheSameBytes) {
  auto foreign = Rerank("acme", RequestFor("docs", {"doc-3", "doc-4"}));
  auto unknown = Rerank("acme", RequestFor("docs", {"doc-3", "no-such"}));
  ASSERT_TRUE(foreign.ok() && unknown.ok());
  EXPECT_EQ(foreign->results(0).missing_string_ids().ids(0), "doc-4");
  foreign->mutable_results(0)->mutable_missing_string_ids()->set_ids(0, "no-such");
  EXPECT_EQ(foreign->SerializeAsString(), unknown->SerializeAsString());

  v1::RerankRequest explained = RequestFor("docs", {"doc-4"});
  v1::ExplainResponse explanation;
  const grpc::Status other = server_->stub().Explain(ContextOf("acme").get(), explained, &explanation);
  explained.mutable_candidates()->mutable_string_ids()->set_ids(0, "no-such");
  const grpc::Status nobody = server_->stub().Explain(ContextOf("acme").get(), explained, &explanation);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(other.error_message(), nobody.error_message());
}

TEST_F(TenantsServiceTest, CollectionsOfOthersAreLikeThoseThatDoNotExist) {
  const auto message_of = [](const std::string& collection) {
    const absl::Status status = Rerank("acme", RequestFor(collection, {"doc-1"})).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    std::string message(status.message());
    return message.replace(message.find(collection), collection.size(), "NAME");
  };
  EXPECT_EQ(message_of("corpus"), message_of("no-such"));
}

TEST_F(TenantsServiceTest, OverHttpATenantSeesItsCollectionsWithoutCounts) {
  const HttpAnswer listed = HttpGet(server_->http_port(), "/v1/collections", "acme");
  EXPECT_EQ(listed.status, 200);
  EXPECT_THAT(listed.body, HasSubstr("\"docs\""));
  EXPECT_THAT(listed.body, Not(HasSubstr("corpus")));
  EXPECT_EQ(HttpGet(server_->http_port(), "/v1/collections/corpus", "acme").status, 404);
  EXPECT_EQ(HttpGet(server_->http_port(), "/v1/stats", "acme").status, 403);
  EXPECT_EQ(HttpGet(server_->http_port(), "/v1/stats", "plain").status, 200);
  const HttpAnswer counted =
      HttpPost(server_->http_port(), "/v1/count", R"({"collection": "docs"})", kJson, /*token=*/"acme");
  EXPECT_EQ(nlohmann::json::parse(counted.body)["count"], 4);
  EXPECT_EQ(HttpGet(server_->http_port(), "/v1/collections/docs/documents/doc-3", "acme").status, 200);
  EXPECT_EQ(HttpGet(server_->http_port(), "/v1/collections/docs/documents/doc-4", "acme").status, 404);
}

TEST_F(TenantsServiceTest, MetricsNeedATokenThatIsNotATenants) {
  EXPECT_EQ(HttpGet(server_->http_port(), "/metrics").status, 401);
  EXPECT_EQ(HttpGet(server_->http_port(), "/metrics", "acme").status, 403);
  EXPECT_EQ(HttpGet(server_->http_port(), "/metrics", "plain").status, 200);
  EXPECT_EQ(HttpGet(server_->http_port(), "/livez").status, 200);
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").body, "ok\n");
}

TEST_F(TenantsServiceTest, GetInfoShowsATenantItsCollectionsAlone) {
  v1::GetInfoResponse info;
  ASSERT_TRUE(server_->stub().GetInfo(ContextOf("acme").get(), {}, &info).ok());
  ASSERT_EQ(info.collections_size(), 1);
  EXPECT_EQ(info.collections(0).name(), "docs");
  EXPECT_EQ(info.collections(0).num_documents(), 0u);
  EXPECT_EQ(info.devices_size(), 0);
  ASSERT_TRUE(server_->stub().GetInfo(ContextOf("plain").get(), {}, &info).ok());
  EXPECT_EQ(info.collections_size(), 2);
}

TEST_F(TenantsServiceTest, ATenantCannotAdminister) {
  v1::ListCollectionsResponse response;
  const auto code = [&](const std::string& token) {
    return server_->admin().ListCollections(ContextOf(token).get(), {}, &response).error_code();
  };
  EXPECT_EQ(code("acme"), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code("operator"), grpc::StatusCode::OK);
}

TEST_F(TenantsServiceTest, ARefusalNamesTheQuotaAndWhenToComeBack) {
  // The first call overdraws the bucket of one pair, and leaves a debt of minutes.
  const v1::RerankRequest request = RequestFor("corpus", AllIds());
  ASSERT_TRUE(Rerank("poor", request).ok());
  const absl::Status refused = Rerank("poor", request).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(client::ReasonOf(refused), client::kReasonTenantQuota);
  EXPECT_EQ(client::FieldOf(refused), "quota.token_pairs_per_second");
  ASSERT_TRUE(client::RetryAfter(refused).has_value());
  EXPECT_GT(*client::RetryAfter(refused), absl::Minutes(1));
  EXPECT_TRUE(Rerank("plain", request).ok());
}

}  // namespace
}  // namespace maxsim::test
