// Tests that the tenant gate enforces quotas, and counts calls and refusals.
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "tests/unit/server/service/tenants/tenant_gate_fixture.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

TEST_F(TenantGateTest, RequestsInFlightAreCountedUntilTheyAreAnswered) {
  const Caller caller = CallerOf(R"({"tenant": "a", "requests_in_flight": 1})");
  questions_.keeps = true;
  absl::Status answered = absl::UnknownError("not yet");
  const auto ask = [&] {
    questions_gate_.Rerank(
        RequestOf("docs"), {.method = "Rerank", .caller = caller},
        [&answered](const absl::StatusOr<v1::RerankResponse>& response) { answered = response.status(); });
    return std::move(questions_.kept);
  };
  Done<v1::RerankResponse> first = ask();
  const absl::Status refused = Rerank(caller, RequestOf("docs")).status();
  EXPECT_TRUE(IsQuotaError(refused)) << refused;
  EXPECT_TRUE(IsQuotaError(Ask(&DocumentApi::Get, caller, "docs").status()));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_rejections_total{reason=\"tenant_quota\"} 1"));
  EXPECT_EQ(questions_.num_calls, 1);
  first(v1::RerankResponse());
  EXPECT_TRUE(answered.ok()) << answered;
  EXPECT_TRUE(Ask(&DocumentApi::Get, caller, "docs").ok());
  Done<v1::RerankResponse> second = ask();
  second = nullptr;  // the service loses the call
  EXPECT_TRUE(absl::IsResourceExhausted(answered)) << answered;
  EXPECT_TRUE(Ask(&DocumentApi::Get, caller, "docs").ok());
}

TEST_F(TenantGateTest, ADeleteWithAFilterIsARequestInFlightUntilItIsAnswered) {
  const Caller caller = CallerOf(R"({"tenant": "a", "requests_in_flight": 1})");
  documents_.keeps = true;
  EXPECT_TRUE(absl::IsUnknown(DeleteMatching(caller, "year = 1").status()));  // not answered yet
  Done<v1::DeleteResponse> kept = std::move(documents_.kept_delete);
  documents_.keeps = false;
  EXPECT_EQ(QuotaOf(DeleteMatching(caller, "year = 1").status()), TenantQuota::kRequestsInFlight);
  kept(v1::DeleteResponse());
  EXPECT_TRUE(DeleteMatching(caller, "year = 1").ok());
}

TEST_F(TenantGateTest, AnExplanationIsChargedForItsSimilarities) {
  const Caller caller = CallerOf(R"({"tenant": "a", "token_pairs_per_second": 1, "token_pairs_burst": 500})");
  questions_.explanation->set_num_query_tokens(10);
  questions_.explanation->set_num_document_tokens(70);
  const auto explain = [&] {
    absl::Status status = absl::UnknownError("no answer yet");
    questions_gate_.Explain(RequestOf("docs"), {.method = "Explain", .caller = caller},
                            [&](const absl::StatusOr<v1::ExplainResponse>& answer) { status = answer.status(); });
    return status;
  };
  EXPECT_TRUE(explain().ok());
  EXPECT_EQ(QuotaOf(explain()), TenantQuota::kTokenPairs);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_tenant_token_pairs_total{tenant=\"a\"} 700\n"));
}

TEST_F(TenantGateTest, WritesStayWithinTheQuotaOfDocuments) {
  const Caller caller = CallerOf(R"({"tenant": "a", "filter": "owner = \"a\"", "documents": 5})");
  documents_.num_stored = 3;
  EXPECT_TRUE(Upsert(caller, "docs", 2).ok());
  EXPECT_EQ(TextOf(documents_.count_request.visible()), "owner = \"a\"");
  const absl::Status refused = Upsert(caller, "docs", 3).status();
  EXPECT_EQ(QuotaOf(refused), TenantQuota::kDocuments) << refused;
  EXPECT_EQ(client::RetryAfter(refused), std::nullopt);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at most 5"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"Upsert\"} 1"));
  // Writes in progress count, too.
  documents_.keeps = true;
  EXPECT_TRUE(absl::IsUnknown(Upsert(caller, "docs", 1).status()));  // not answered yet
  Done<v1::UpsertResponse> kept = std::move(documents_.kept);
  documents_.keeps = false;
  EXPECT_EQ(QuotaOf(Upsert(caller, "docs", 2).status()), TenantQuota::kDocuments);
  EXPECT_TRUE(Upsert(caller, "others", 2).ok());
  EXPECT_TRUE(Upsert(caller, "docs", 1).ok());
  kept(v1::UpsertResponse());
  EXPECT_TRUE(Upsert(caller, "docs", 2).ok());
}

TEST_F(TenantGateTest, WritesStayWithinTheQuotaOfBytes) {
  const Caller caller = CallerOf(R"({"tenant": "a", "bytes": 100})");
  documents_.stored_bytes = 80;
  EXPECT_TRUE(Upsert(caller, "docs", 2).ok());  // of 10 bytes each
  EXPECT_TRUE(documents_.count_request.return_token_bytes());
  EXPECT_EQ(QuotaOf(Upsert(caller, "docs", 3).status()), TenantQuota::kBytes);
}

TEST_F(TenantGateTest, AClientCannotHideItsDocumentsFromTheQuota) {
  const Caller caller = CallerOf(R"({"tenant": "a", "filter": "owner = \"a\"", "documents": 5})");
  v1::UpsertRequest request;
  request.set_collection("docs");
  request.add_documents();
  *request.mutable_visible() = FilterMessageOf(*collection::ParseFilter("n = 1"));
  documents_gate_.Upsert(request, {.method = "Upsert", .caller = caller},
                         [](const absl::StatusOr<v1::UpsertResponse>&) {});
  EXPECT_EQ(TextOf(documents_.count_request.visible()), "owner = \"a\"");
  EXPECT_EQ(TextOf(*documents_.visible), "owner = \"a\" and n = 1");
}

TEST_F(TenantGateTest, CallsAreCountedByTenantAndCodeAndRefusalsByQuota) {
  EXPECT_TRUE(Rerank(CallerOf(kAcme), RequestOf("docs")).ok());
  EXPECT_FALSE(Rerank(CallerOf(kAcme), RequestOf("secret")).ok());
  questions_.answer = QuotaError(TenantQuota::kTokenPairs, "used up", absl::Seconds(1));
  EXPECT_FALSE(Rerank(CallerOf(kAcme), RequestOf("docs")).ok());
  EXPECT_FALSE(Rerank(Caller::Unrestricted(), RequestOf("docs")).ok());
  const std::string text = metrics_.Expose();
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_requests_total{code=\"OK\",tenant=\"acme\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_requests_total{code=\"NOT_FOUND\",tenant=\"acme\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_requests_total{code=\"RESOURCE_EXHAUSTED\",tenant=\"acme\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("maxsim_tenant_refusals_total{quota=\"token_pairs_per_second\",tenant=\"acme\"} 1\n"));
}

}  // namespace
}  // namespace maxsim::service
