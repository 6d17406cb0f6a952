// Tests that neither answers nor errors tell a tenant of a router the names of groups or the addresses of replicas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/cluster/router_documents.h"
#include "server/cluster/router_scorer.h"
#include "server/service/rerank_front.h"
#include "server/service/tenant_gate/tenant_documents.h"
#include "server/service/tenant_gate/tenant_questions.h"
#include "server/service/tenant_gate/tenant_view.h"
#include "server/service/tenants/tenant_usage.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

service::Caller CallerOf(std::string_view settings) {
  const auto parsed = service::ParseTenant(settings);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return service::Caller(
      std::make_shared<const service::Tenant>(*parsed, std::make_shared<service::TenantUsage>(parsed->name)));
}

// The replicas of g0 fail each call with `failure_`, those of g1 answer. The parameter is a tenant's settings: a tenant
// without a filter must learn as little about the cluster as one with a filter.
class RouterTenantsTest : public RouterTest, public testing::WithParamInterface<const char*> {
 protected:
  RouterTenantsTest() : RouterTest(2, 2, /*is_live=*/true) {
    for (int index : {0, 1}) {
      test::FakeServer& lost = replica(0, index).server();
      lost.on_rerank = [this](auto&&...) { return client::ToGrpcStatus(failure_); };
      lost.on_upsert = [this](auto&&...) { return client::ToGrpcStatus(failure_); };
      lost.on_delete = [this](auto&&...) { return client::ToGrpcStatus(failure_); };
      lost.on_get = [this](auto&&...) { return client::ToGrpcStatus(failure_); };
      test::FakeServer& sound = replica(1, index).server();
      sound.on_rerank = [](grpc::ServerContext&, const v1::RerankRequest&, v1::RerankResponse& response) {
        response.set_generation(1);
        v1::QueryResult& result = *response.add_results();
        result.mutable_string_ids()->add_ids(IdOf(1, 2));
        result.add_scores(1);
        result.add_positions(0);
        return grpc::Status::OK;
      };
      sound.on_upsert = [](grpc::ServerContext&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
        for (int i = 0; i < request.documents_size(); ++i) {
          v1::WriteResult& result = *response.add_results();
          result.set_outcome(v1::WRITE_OUTCOME_APPLIED);
          result.set_sequence(1);
        }
        response.set_sequence(1);
        return grpc::Status::OK;
      };
      sound.on_delete = [](grpc::ServerContext&, const v1::DeleteRequest&, v1::DeleteResponse& response) {
        response.set_num_deleted(5);
        response.set_sequence(30);
        return grpc::Status::OK;
      };
    }
  }

  void StartRouter() {
    Start();
    scorer_ = std::make_unique<RouterScorer>(dependencies());
    front_ = std::make_unique<service::RerankFront>(scorer_.get(), &texts_, &metrics_, service::RequestLimits(),
                                                    absl::ZeroDuration());
    front_->SetState(service::ServingState::kServing);
    documents_ = std::make_unique<RouterDocuments>(dependencies());
    documents_->SetState(service::ServingState::kServing);
    questions_gate_ = std::make_unique<service::TenantQuestions>(front_.get(), front_.get(), &metrics_,
                                                                 service::ErrorSource::kRouter);
    documents_gate_ =
        std::make_unique<service::TenantDocuments>(documents_.get(), &metrics_, service::ErrorSource::kRouter);
  }

  service::CallContext ContextOf(const char* method) const { return {.method = method, .caller = caller_}; }

  absl::StatusOr<v1::RerankResponse> Rerank(v1::MissingPolicy policy) {
    v1::RerankRequest request;
    request.set_collection("c");
    request.set_top_k(10);
    request.set_missing_policy(policy);
    FillTokens(*request.add_queries()->mutable_tokens());
    request.mutable_candidates()->mutable_whole_collection();
    return Wait<v1::RerankResponse>([&](service::Done<v1::RerankResponse> done) {
      questions_gate_->Rerank(std::move(request), ContextOf("Rerank"), std::move(done));
    });
  }

  absl::Status Upsert() {
    v1::UpsertRequest request;
    request.set_collection("c");
    for (int group : {0, 1}) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(IdOf(group, 2));
      FillTokens(*document.mutable_tokens());
    }
    return Wait<v1::UpsertResponse>([&](service::Done<v1::UpsertResponse> done) {
             documents_gate_->Upsert(request, ContextOf("Upsert"), std::move(done));
           })
        .status();
  }

  absl::Status DeleteMatching() {
    v1::DeleteRequest request;
    request.set_collection("c");
    request.set_filter_text("year < 2000");
    return Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
             documents_gate_->Delete(request, ContextOf("Delete"), std::move(done));
           })
        .status();
  }

  absl::Status Get() {
    v1::GetRequest request;
    request.set_collection("c");
    request.mutable_string_ids()->add_ids(IdOf(0, 2));
    return Wait<v1::GetResponse>([&](service::Done<v1::GetResponse> done) {
             documents_gate_->Get(request, ContextOf("Get"), std::move(done));
           })
        .status();
  }

  static void FillTokens(v1::TokenMatrix& tokens) {
    tokens.set_dtype(v1::DATA_TYPE_F32);
    tokens.set_num_tokens(1);
    tokens.set_dim(8);
    tokens.set_data(std::string(8 * sizeof(float), '\0'));
  }

  // Returns what GetInfo says about the collection to the caller.
  v1::CollectionInfo InfoForCaller() const {
    v1::GetInfoResponse info;
    *info.add_collections() = (*membership_->view()->Find("c"))->info;
    service::HideFromTenant(caller_, service::ErrorSource::kRouter, info);
    return info.collections(0);
  }

  // Expects an error that contains no group's name and no address, neither in its message nor in its details.
  static void ExpectNoNames(const absl::Status& status) {
    EXPECT_FALSE(status.ok());
    std::string all(status.message());
    status.ForEachPayload([&](absl::string_view, const absl::Cord& payload) { all += std::string(payload); });
    ExpectNoNamesIn(all);
  }
  static void ExpectNoNamesIn(const std::string& text) {
    for (const char* name : {"g0", "g1", "10.0.0.7"}) EXPECT_THAT(text, Not(HasSubstr(name)));
  }

  service::Caller caller_ = CallerOf(GetParam());
  absl::Status failure_ = absl::UnavailableError("connection to 10.0.0.7:7070 refused");
  std::unique_ptr<RouterScorer> scorer_;
  std::unique_ptr<service::RerankFront> front_;
  std::unique_ptr<RouterDocuments> documents_;
  std::unique_ptr<service::TenantQuestions> questions_gate_;
  std::unique_ptr<service::TenantDocuments> documents_gate_;
};

TEST_P(RouterTenantsTest, APartialAnswerDoesNotNameTheLostGroup) {
  StartRouter();
  const auto partial = Rerank(v1::MISSING_POLICY_REPORT);
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), IsEmpty());
  EXPECT_EQ(partial->results(0).unavailable_documents(), 1u) << "the tenant must know that documents may be missing";
  caller_ = service::Caller::Unrestricted();
  const auto named = Rerank(v1::MISSING_POLICY_REPORT);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->unavailable_groups(), ElementsAre("g0"));
}

TEST_P(RouterTenantsTest, ErrorsOfLostGroupsDoNotNameThem) {
  StartRouter();
  const absl::Status search = Rerank(v1::MISSING_POLICY_FAIL).status();
  EXPECT_TRUE(absl::IsUnavailable(search)) << search;
  ExpectNoNames(search);
  ExpectNoNames(Upsert());
  ExpectNoNames(Get());
  const absl::Status deleted = DeleteMatching();
  EXPECT_EQ(client::NumDeletedOf(deleted), 5u);
  EXPECT_THAT(std::string(deleted.message()), HasSubstr("5 documents were deleted"));
  ExpectNoNames(deleted);
  caller_ = service::Caller::Unrestricted();
  EXPECT_THAT(std::string(Rerank(v1::MISSING_POLICY_FAIL).status().message()), HasSubstr("group g0"));
  EXPECT_THAT(std::string(DeleteMatching().message()), HasSubstr("(group g0)"));
}

TEST_P(RouterTenantsTest, AnErrorAboutTheRequestKeepsItsWords) {
  failure_ = client::InvalidField("documents[0].payload", "is no object");
  StartRouter();
  const absl::Status of_write = Upsert();
  EXPECT_TRUE(absl::IsInvalidArgument(of_write)) << of_write;
  EXPECT_EQ(of_write.message(), "documents[0].payload: is no object; another part of the call was carried out");
  ExpectNoNames(of_write);
  failure_ = client::InvalidField("filter_text", "is wrong");
  const absl::Status of_delete = DeleteMatching();
  EXPECT_THAT(std::string(of_delete.message()), HasSubstr("filter_text: is wrong; 5 documents were deleted"));
  ExpectNoNames(of_delete);
}

// A server refuses writes if its stream is not that of the collection. Its error contains the stream server's address,
// which the tenant must not see.
TEST_P(RouterTenantsTest, ACollectionThatFollowsNoStreamDoesNotNameTheStreamsServer) {
  for (const bool is_nothing_written : {true, false}) {
    failure_ = absl::FailedPreconditionError(
        "collection c has applied the messages up to sequence 7 of stream maxsim_c, but NATS JetStream (nats.url "
        "nats://10.0.0.7:4222) has another one");
    if (is_nothing_written) client::SetNothingWritten(failure_);
    if (membership_ == nullptr) StartRouter();
    for (const absl::Status& status : {Upsert(), DeleteMatching()}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the collection may take no writes"));
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("sequence 7")));
      ExpectNoNames(status);
    }
  }
  failure_ = absl::FailedPreconditionError("collection c: is of generation 2");
  client::SetReason(client::kReasonOtherGeneration, failure_);
  EXPECT_THAT(std::string(Upsert().message()), HasSubstr("is of generation 2")) << "this is about the request";
}

TEST_P(RouterTenantsTest, ABusyGroupIsNotNamedAndTheDelayStays) {
  failure_ = absl::ResourceExhaustedError("the queue of g0 is full");
  client::SetRetryAfter(absl::Milliseconds(70), failure_);
  StartRouter();
  const absl::Status busy = Rerank(v1::MISSING_POLICY_FAIL).status();
  EXPECT_TRUE(absl::IsResourceExhausted(busy)) << busy;
  EXPECT_TRUE(client::RetryAfter(busy).has_value());
  ExpectNoNames(busy);
}

TEST_P(RouterTenantsTest, GetInfoDoesNotNameTheLostGroupAndTheAddressOfNats) {
  for (int group : {0, 1}) {
    for (int index : {0, 1}) {
      v1::CollectionInfo info = replica(group, index).said();
      info.mutable_live()->set_error("NATS JetStream (nats.url nats://10.0.0.7:4222) has not answered yet");
      replica(group, index).Say(info);
    }
  }
  StartRouter();
  for (int index : {0, 1}) replica(0, index).away = true;
  ASSERT_TRUE(
      Eventually([&] { return (*membership_->view()->Find("c"))->info.state() == v1::COLLECTION_STATE_PARTIAL; }));
  const v1::CollectionInfo shown = InfoForCaller();
  EXPECT_EQ(shown.name(), "c");
  EXPECT_EQ(shown.state(), v1::COLLECTION_STATE_PARTIAL);
  ExpectNoNamesIn(shown.ShortDebugString());
  if (caller_.tenant()->filter() == nullptr) {
    EXPECT_EQ(shown.error(), "some documents cannot be reached at the moment");
    EXPECT_EQ(shown.live().error(), "some servers of the cluster cannot apply writes at the moment");
  }
  caller_ = service::Caller::Unrestricted();
  EXPECT_THAT(InfoForCaller().error(), HasSubstr("group g0"));
  EXPECT_THAT(InfoForCaller().live().error(), HasSubstr("10.0.0.7"));
}

INSTANTIATE_TEST_SUITE_P(All, RouterTenantsTest,
                         testing::Values(R"({"tenant": "a", "filter": "owner = \"a\""})", R"({"tenant": "b"})"));

}  // namespace
}  // namespace maxsim::cluster
