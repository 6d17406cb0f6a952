// Tests how a router merges the answers of its groups of servers, and how it handles their errors.
#include "server/cluster/router_scorer.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/call/status.h"
#include "server/service/rerank_front.h"
#include "server/service/tenant_gate/tenant_questions.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RouterScorerTest : public RouterTest {
 protected:
  // Each replica answers with one document, whose id and score depend on the number of the replica's group.
  explicit RouterScorerTest(bool is_live = false) : RouterTest(2, 2, is_live) {
    for (int group : {0, 1}) {
      for (int index : {0, 1}) {
        replica(group, index).server().on_rerank = [group](grpc::ServerContext&, const v1::RerankRequest& request,
                                                           v1::RerankResponse& response) {
          response.set_generation(1);
          response.set_sequence(request.min_sequence());
          v1::QueryResult& result = *response.add_results();
          result.mutable_string_ids()->add_ids(IdOf(group, 2));
          result.add_scores(static_cast<float>(1 + group));
          result.add_positions(0);
          return grpc::Status::OK;
        };
      }
    }
  }

  void StartRouter() {
    Start();
    scorer_ = std::make_unique<RouterScorer>(dependencies());
    front_ = std::make_unique<service::RerankFront>(scorer_.get(), &texts_, &metrics_, service::RequestLimits(),
                                                    absl::ZeroDuration());
    front_->SetState(service::ServingState::kServing);
  }

  // Returns a request for the ids, or for the whole collection.
  static v1::RerankRequest RequestFor(const std::vector<std::string>& ids) {
    v1::RerankRequest request;
    request.set_collection("c");
    request.set_top_k(10);
    v1::TokenMatrix& tokens = *request.add_queries()->mutable_tokens();
    tokens.set_dtype(v1::DATA_TYPE_F32);
    tokens.set_num_tokens(1);
    tokens.set_dim(8);
    tokens.set_data(std::string(8 * sizeof(float), '\0'));
    if (ids.empty()) request.mutable_candidates()->mutable_whole_collection();
    for (const std::string& id : ids) request.mutable_candidates()->mutable_string_ids()->add_ids(id);
    return request;
  }

  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request) {
    return Wait<v1::RerankResponse>([&](service::Done<v1::RerankResponse> done) {
      front_->Rerank(v1::RerankRequest(request), {.method = "Rerank"}, std::move(done));
    });
  }

  // Makes a replica fail every request.
  static void Fail(FakeReplica& replica, const absl::Status& status) {
    replica.server().on_rerank = [status](grpc::ServerContext&, const v1::RerankRequest&, v1::RerankResponse&) {
      return client::ToGrpcStatus(status);
    };
  }

  // Returns a handler that answers with two results and one alignment that was not requested.
  static test::FakeServer::RerankHandler OneAlignmentTooMany() {
    return [](grpc::ServerContext&, const v1::RerankRequest&, v1::RerankResponse& response) {
      response.set_generation(1);
      v1::QueryResult& result = *response.add_results();
      for (int i : {0, 1}) {
        result.mutable_string_ids()->add_ids(absl::StrCat("doc-", i));
        result.add_scores(static_cast<float>(5 - i));
        result.add_positions(static_cast<uint64_t>(i));
      }
      result.add_alignments();
      return grpc::Status::OK;
    };
  }

  int Asked(int group) { return replica(group, 0).server().num_reranks + replica(group, 1).server().num_reranks; }

  std::unique_ptr<RouterScorer> scorer_;
  std::unique_ptr<service::RerankFront> front_;
};

TEST_F(RouterScorerTest, AScanIsMergedOfAllGroupsByScore) {
  StartRouter();
  const auto answer = Rerank(RequestFor({}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->results(0).string_ids().ids(), ElementsAre(IdOf(1, 2), IdOf(0, 2)));
  EXPECT_THAT(answer->results(0).scores(), ElementsAre(2, 1));
  EXPECT_EQ(answer->generation(), 1);
}

TEST_F(RouterScorerTest, ATenantIsChargedWhatTheGroupsReport) {
  for (int group : {0, 1}) {
    for (int index : {0, 1}) {
      test::FakeServer& server = replica(group, index).server();
      server.on_rerank = [answer = server.on_rerank](grpc::ServerContext& context, const v1::RerankRequest& request,
                                                     v1::RerankResponse& response) {
        if (request.return_token_pairs()) response.set_token_pairs(300);
        return answer(context, request, response);
      };
    }
  }
  StartRouter();
  service::TenantQuestions gate(front_.get(), front_.get(), &metrics_, service::ErrorSource::kRouter);
  const auto settings =
      service::ParseTenant(R"({"tenant": "a", "token_pairs_per_second": 1, "token_pairs_burst": 500})");
  const service::Caller caller(
      std::make_shared<const service::Tenant>(*settings, std::make_shared<service::TenantUsage>("a")));
  const auto ask = [&] {
    return Wait<v1::RerankResponse>([&](service::Done<v1::RerankResponse> done) {
      gate.Rerank(RequestFor({}), {.method = "Rerank", .caller = caller}, std::move(done));
    });
  };
  const auto first = ask();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->token_pairs(), 600);
  // The burst was overdrawn by 100 pairs, which take 100 seconds to come back.
  const absl::Status second = ask().status();
  EXPECT_TRUE(service::IsQuotaError(second)) << second;
  // Others are not asked for the number.
  const auto plain = Rerank(RequestFor({}));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->token_pairs(), 0);
}

TEST_F(RouterScorerTest, IdsGoToTheGroupOfTheirSlotsAlone) {
  StartRouter();
  const auto answer = Rerank(RequestFor({IdOf(1, 2)}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->results(0).string_ids().ids(), ElementsAre(IdOf(1, 2)));
  EXPECT_EQ(Asked(0), 0);
  EXPECT_EQ(Asked(1), 1);
}

TEST_F(RouterScorerTest, AnotherReplicaAnswersInThePlaceOfOneThatFails) {
  Fail(replica(0, 0), absl::UnavailableError("it drains"));
  Fail(replica(1, 1), absl::InternalError("it is broken"));
  StartRouter();
  for (int i = 0; i < 4; ++i) {
    const auto answer = Rerank(RequestFor({}));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(answer->unavailable_groups(), IsEmpty());
    EXPECT_EQ(answer->results(0).scores_size(), 2);
  }
}

TEST_F(RouterScorerTest, AnAnswerNamesALostGroupOrFailsAsItIsAskedTo) {
  for (int index : {0, 1}) Fail(replica(0, index), absl::UnavailableError("it drains"));
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  const auto partial = Rerank(request);
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), ElementsAre("g0"));
  EXPECT_EQ(partial->results(0).unavailable_documents(), 1);
  EXPECT_THAT(partial->results(0).scores(), ElementsAre(2));
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Rerank(request).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("group g0"));
}

TEST_F(RouterScorerTest, AnAnswerNamesAGroupThatIsSilent) {
  for (int index : {0, 1}) {
    replica(0, index).server().on_rerank = [](const grpc::ServerContext& context, auto&&...) {
      Eventually([&] { return context.IsCancelled(); });
      return grpc::Status::OK;
    };
  }
  StartRouter();
  for (int index : {0, 1}) replica(0, index).silent = true;
  const auto partial = Rerank(RequestFor({}));
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), ElementsAre("g0"));
  EXPECT_THAT(partial->results(0).scores(), ElementsAre(2));
}

TEST_F(RouterScorerTest, AGroupThatDoesNotAnswerInTimeIsLost) {
  const absl::Status late = absl::DeadlineExceededError("no time left");
  for (int index : {0, 1}) Fail(replica(0, index), late);
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  const auto partial = Rerank(request);
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), ElementsAre("g0"));
  EXPECT_EQ(partial->results(0).unavailable_documents(), 1);
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Rerank(request).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("group g0 does not answer: no time left"));
  // The code is also DEADLINE_EXCEEDED if no group answers, because the client's deadline may just be too short.
  EXPECT_TRUE(absl::IsDeadlineExceeded(Rerank(RequestFor({IdOf(0, 2)})).status()));
}

TEST_F(RouterScorerTest, ALostGroupIsTheReasonOfARejection) {
  for (int index : {0, 1}) Fail(replica(0, index), absl::UnavailableError("it drains"));
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  EXPECT_TRUE(absl::IsUnavailable(Rerank(request).status()));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_rejections_total{reason=\"group\"} 1"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_rejections_total{reason=\"device\"} 0"));
}

TEST_F(RouterScorerTest, AnotherReplicaAnswersInThePlaceOfOneWhoseAnswerIsWrong) {
  replica(0, 0).server().on_rerank = OneAlignmentTooMany();
  StartRouter();
  for (int i = 0; i < 4; ++i) {
    const auto answer = Rerank(RequestFor({}));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(answer->unavailable_groups(), IsEmpty());
    EXPECT_EQ(answer->results(0).scores_size(), 2);
  }
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_group_bad_answers_total{field=\"alignments\",group=\"g0\"} "));
}

TEST_F(RouterScorerTest, AGroupWhoseAnswersAreAllWrongIsLost) {
  for (int index : {0, 1}) replica(0, index).server().on_rerank = OneAlignmentTooMany();
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  const auto partial = Rerank(request);
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_THAT(partial->unavailable_groups(), ElementsAre("g0"));
  EXPECT_THAT(partial->results(0).scores(), ElementsAre(2));
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::Status status = Rerank(request).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("results[0].alignments has 1 elements, but 0 belong"));
}

// A server limits the number of explanations at a time. If it refuses one, its queue for Rerank need not be full.
TEST_F(RouterScorerTest, AReplicaThatRefusesAnExplanationStillGetsRerankCalls) {
  absl::Status full = absl::ResourceExhaustedError("too many calls of Explain");
  client::SetRetryAfter(absl::Hours(1), full);
  for (int index : {0, 1}) {
    replica(1, index).server().on_explain = [full](auto&&...) { return client::ToGrpcStatus(full); };
  }
  StartRouter();
  const auto explanation = Wait<v1::ExplainResponse>([&](service::Done<v1::ExplainResponse> done) {
    front_->Explain(RequestFor({IdOf(1, 2)}), {.method = "Explain"}, std::move(done));
  });
  EXPECT_TRUE(absl::IsResourceExhausted(explanation.status())) << explanation.status();
  const auto answer = Rerank(RequestFor({IdOf(1, 2)}));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Asked(1), 1);
}

// All Rerank calls of a replica share one queue. While this queue is full, the router must not call the replica.
TEST_F(RouterScorerTest, AReplicaWhoseQueueIsFullGetsNoCallsForAWhile) {
  absl::Status full = absl::ResourceExhaustedError("the queue is full");
  client::SetRetryAfter(absl::Hours(1), full);
  for (int index : {0, 1}) Fail(replica(1, index), full);
  StartRouter();
  for (int call = 0; call < 2; ++call) {
    EXPECT_TRUE(absl::IsResourceExhausted(Rerank(RequestFor({IdOf(1, 2)})).status()));
  }
  EXPECT_EQ(Asked(1), 2);
}

// A grouped request needs a second call per group of servers, for further documents of the best result groups. Here the
// servers load another generation (version) of the collection between the two calls.
TEST_F(RouterScorerTest, AGenerationThatEndsBetweenTheTwoCallsOfAGroupedRequestIsNoLoss) {
  std::atomic<int> num_asked_for_members = 0;
  for (int group : {0, 1}) {
    for (int index : {0, 1}) {
      replica(group, index).server().on_rerank = [group, &num_asked_for_members](grpc::ServerContext&,
                                                                                 const v1::RerankRequest& request,
                                                                                 v1::RerankResponse& response) {
        response.set_generation(1);
        v1::QueryResult& result = *response.add_results();
        if (!request.group_values().empty()) {
          if (++num_asked_for_members > 2) return grpc::Status::OK;
          return client::ToGrpcStatus(client::FieldError(absl::StatusCode::kFailedPrecondition,
                                                         client::kReasonOtherGeneration, "generation", "is 1, not 2"));
        }
        result.mutable_string_ids()->add_ids(IdOf(group, 2));
        result.add_scores(static_cast<float>(1 + group));
        result.add_positions(0);
        result.add_group_values(absl::StrCat("book-", group));
        return grpc::Status::OK;
      };
    }
  }
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  request.set_top_k(1);
  request.set_group_by("book");
  request.set_group_size(2);
  const auto answer = Rerank(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->results(0).string_ids().ids(), ElementsAre(IdOf(1, 2)));
  EXPECT_EQ(answer->results(0).unavailable_documents(), 0);
  EXPECT_EQ(num_asked_for_members, 3);
}

TEST_F(RouterScorerTest, AnErrorOfTheRequestIsNotAskedTwice) {
  for (int index : {0, 1}) Fail(replica(1, index), absl::InvalidArgumentError("queries[0].tokens: is wrong"));
  StartRouter();
  const absl::Status status = Rerank(RequestFor({IdOf(1, 2)})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("queries[0].tokens"));
  EXPECT_EQ(Asked(1), 1);
}

TEST_F(RouterScorerTest, AnErrorThatIsNoTextIsMadeOne) {
  for (int index : {0, 1}) {
    replica(1, index).server().on_rerank = [](grpc::ServerContext&, const v1::RerankRequest&, v1::RerankResponse&) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "queries: \xff\xfe");
    };
  }
  StartRouter();
  const absl::Status status = Rerank(RequestFor({IdOf(1, 2)})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_TRUE(IsUtf8(std::string(status.message()))) << status;
}

TEST_F(RouterScorerTest, AnUnknownCollectionIsNotFound) {
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  request.set_collection("nowhere");
  EXPECT_TRUE(absl::IsNotFound(Rerank(request).status()));
}

TEST_F(RouterScorerTest, AnExplainCallForSeveralDocumentsIsRefusedWithoutAGroup) {
  StartRouter();
  const auto answer = Wait<v1::ExplainResponse>([&](service::Done<v1::ExplainResponse> done) {
    front_->Explain(RequestFor({IdOf(0, 2), IdOf(1, 2)}), {.method = "Explain"}, std::move(done));
  });
  EXPECT_EQ(answer.status(), service::InvalidField("candidates", "must be one id"));
}

TEST_F(RouterScorerTest, ARouterThatDrainsRefuses) {
  StartRouter();
  front_->SetState(service::ServingState::kDraining);
  EXPECT_TRUE(absl::IsUnavailable(Rerank(RequestFor({})).status()));
  EXPECT_EQ(Asked(0), 0);
}

class LiveRouterScorerTest : public RouterScorerTest {
 protected:
  LiveRouterScorerTest() : RouterScorerTest(/*is_live=*/true) {}
};

TEST_F(LiveRouterScorerTest, AReplicaThatIsBehindIsNotLeftOut) {
  absl::Status behind = absl::UnavailableError("min_sequence: is 5, but collection \"c\" has only reached 4");
  client::SetRetryAfter(absl::Milliseconds(1), behind);
  Fail(replica(0, 0), behind);
  StartRouter();
  v1::RerankRequest request = RequestFor({IdOf(0, 2)});
  request.set_min_sequence(5);
  for (int i = 0; i < 4 * ReplicaHealth::kMaxFailures; ++i) ASSERT_TRUE(Rerank(request).ok());
  EXPECT_FALSE(seen(0, 0)->health().is_ejected(MonotonicNow()));
}

TEST_F(LiveRouterScorerTest, AGroupThatIsBehindIsNoLostGroup) {
  absl::Status behind = absl::UnavailableError("min_sequence: is 5, but collection \"c\" has only reached 4");
  client::SetRetryAfter(absl::Milliseconds(1), behind);
  // One replica of g0 lacks the latest writes, the other is draining. The result must not depend on which the router
  // asks first.
  Fail(replica(0, 0), behind);
  Fail(replica(0, 1), absl::UnavailableError("it drains"));
  StartRouter();
  v1::RerankRequest request = RequestFor({});
  request.set_min_sequence(5);
  for (int i = 0; i < 4; ++i) {
    const auto answer = Rerank(request);
    EXPECT_TRUE(absl::IsUnavailable(answer.status())) << (answer.ok() ? answer->DebugString() : "");
    EXPECT_TRUE(client::RetryAfter(answer.status()).has_value()) << answer.status();
  }
}

}  // namespace
}  // namespace maxsim::cluster
