// Tests that a deadline which passes while a replica's answer is arriving fails only that call.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/router_collections.h"
#include "server/cluster/router_documents.h"
#include "server/service/rerank_front.h"
#include "tests/support/connections/slow_proxy.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using test::SlowProxy;

// The payload is so large that an answer takes many HTTP/2 frames. The proxy passes on one of these numbers of bytes,
// so that the answer stops within a frame's header, within a frame's data, or between two frames.
constexpr size_t kPayloadBytes = 200'000;
constexpr int64_t kFirstBytes[] = {0, 1, 9, 100, 20'000, 100'000};

// Makes one replica, which the router reaches through a slow proxy.
class GroupSlowAnswersTest : public RouterTest {
 protected:
  GroupSlowAnswersTest() : RouterTest(1, 1, /*is_live=*/true) {
    proxy_ = std::make_unique<SlowProxy>(replica(0, 0).server().port());
    options_.groups[0].targets = {absl::StrCat("127.0.0.1:", proxy_->port())};
    options_.poll_interval = absl::Hours(1);  // only the calls of a test are answered
    replica(0, 0).server().on_rerank = [](grpc::ServerContext&, const v1::RerankRequest&,
                                          v1::RerankResponse& response) {
      response.set_generation(1);
      v1::QueryResult& result = *response.add_results();
      result.mutable_string_ids()->add_ids("a");
      result.add_scores(1);
      result.add_positions(0);
      result.add_payloads(absl::StrCat("{\"text\":\"", std::string(kPayloadBytes, 'x'), "\"}"));
      return grpc::Status::OK;
    };
    replica(0, 0).server().on_get = [](grpc::ServerContext&, const v1::GetRequest&, v1::GetResponse& response) {
      v1::StoredDocument& document = *response.add_documents();
      document.set_string_id("a");
      document.set_num_tokens(1);
      document.set_payload(std::string(kPayloadBytes, 'x'));
      return grpc::Status::OK;
    };
  }

  void StartRouter() {
    Start();
    scorer_ = std::make_unique<RouterScorer>(dependencies());
    front_ = std::make_unique<service::RerankFront>(scorer_.get(), &texts_, &metrics_, service::RequestLimits(),
                                                    absl::ZeroDuration());
    front_->SetState(service::ServingState::kServing);
    documents_ = std::make_unique<RouterDocuments>(dependencies());
    documents_->SetState(service::ServingState::kServing);
  }

  static v1::RerankRequest Request() {
    v1::RerankRequest request;
    request.set_collection("c");
    request.set_top_k(1);
    request.set_return_payloads(true);
    v1::TokenMatrix& tokens = *request.add_queries()->mutable_tokens();
    tokens.set_dtype(v1::DATA_TYPE_F32);
    tokens.set_num_tokens(1);
    tokens.set_dim(8);
    tokens.set_data(std::string(8 * sizeof(float), '\0'));
    request.mutable_candidates()->mutable_string_ids()->add_ids("a");
    return request;
  }

  absl::Status Rerank(absl::Duration timeout = absl::InfiniteDuration()) {
    return Wait<v1::RerankResponse>([&](service::Done<v1::RerankResponse> done) {
             front_->Rerank(Request(), {.method = "Rerank", .deadline = MonotonicNow() + timeout}, std::move(done));
           })
        .status();
  }
  absl::Status Get(absl::Duration timeout = absl::InfiniteDuration()) {
    v1::GetRequest request;
    request.set_collection("c");
    request.mutable_string_ids()->add_ids("a");
    return Wait<v1::GetResponse>([&](service::Done<v1::GetResponse> done) {
             documents_->Get(request, {.method = "Get", .deadline = MonotonicNow() + timeout}, std::move(done));
           })
        .status();
  }

  std::unique_ptr<SlowProxy> proxy_;
  std::unique_ptr<RouterScorer> scorer_;
  std::unique_ptr<service::RerankFront> front_;
  std::unique_ptr<RouterDocuments> documents_;
};

TEST_F(GroupSlowAnswersTest, ADeadlineWhileAnAnswerArrivesFailsTheCallAlone) {
  StartRouter();
  for (const auto manner : {SlowProxy::Manner::kStop, SlowProxy::Manner::kDrip}) {
    for (const int64_t count : kFirstBytes) {
      SCOPED_TRACE(absl::StrCat(count, manner == SlowProxy::Manner::kStop ? " and stops" : " and drips"));
      for (const bool is_rerank : {true, false}) {
        proxy_->PassOnAtMost(count, manner);
        const absl::Duration timeout = absl::Milliseconds(40);
        const absl::Status status = is_rerank ? Rerank(timeout) : Get(timeout);
        EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) << status;
        proxy_->PassOn();
        // After several failed calls, the router does not call the replica for a while. So the test retries until a
        // call succeeds.
        EXPECT_TRUE(test::Eventually([&] { return (is_rerank ? Rerank() : Get()).ok(); }));
      }
    }
  }
}

TEST_F(GroupSlowAnswersTest, ARouterThatStopsWhileAnAnswerArrivesEndsTheCall) {
  StartRouter();
  ASSERT_TRUE(Rerank().ok());
  proxy_->PassOnAtMost(20'000, SlowProxy::Manner::kStop);
  absl::Notification answered;
  absl::Status status;
  front_->Rerank(Request(), {.method = "Rerank"}, [&](const absl::StatusOr<v1::RerankResponse>& response) {
    status = response.status();
    answered.Notify();
  });
  ASSERT_TRUE(test::Eventually([&] { return proxy_->has_held(); }));
  membership_->Stop();
  calls_.Close();
  answered.WaitForNotification();
  EXPECT_FALSE(status.ok());
}

TEST_F(GroupSlowAnswersTest, AChangeThatIsStoppedWhileItsAnswerArrivesEnds) {
  StartRouter();
  StopSignal shutdown;
  RouterCollections collections(membership_.get(), &shutdown);
  for (const int64_t count : {0, 1, 9, 12}) {
    SCOPED_TRACE(count);
    proxy_->PassOnAtMost(count, SlowProxy::Manner::kStop);
    StopSignal stop;
    std::thread stopper([&] {
      test::Eventually([&] { return proxy_->has_held(); });
      stop.Request(absl::StatusCode::kCancelled);
    });
    v1::LoadCollectionRequest request;
    request.set_name("c");
    EXPECT_TRUE(absl::IsCancelled(collections.LoadForClient(request, {.stop = &stop}).status()));
    stopper.join();
    proxy_->PassOn();
  }
  EXPECT_TRUE(test::Eventually([&] { return Rerank().ok(); }));
}

}  // namespace
}  // namespace maxsim::cluster
