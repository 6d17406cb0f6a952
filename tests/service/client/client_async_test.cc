// Tests the client's calls with callbacks, and its sessions, with a fake server whose errors each test chooses.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/status.h"
#include "gtest/gtest.h"
#include "tests/service/client/client_fixture.h"
#include "tests/support/fake_server.h"
#include "tests/support/values/eventually.h"

namespace maxsim::client {
namespace {

TEST(ClientAsyncTest, EveryCallbackRunsOnceWithItsOwnAnswer) {
  test::FakeServer server;
  const auto client = Connect(server);
  constexpr int kCalls = 200;
  std::vector<std::atomic<int>> runs(kCalls);
  std::atomic<int> right{0};
  absl::BlockingCounter done(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    auto request = std::make_shared<v1::RerankRequest>(Request(std::to_string(i)));
    client->RerankAsync(std::move(request), {}, [&, i](absl::StatusOr<v1::RerankResponse> response) {
      ++runs[i];
      if (response.ok() && response->request_id() == std::to_string(i)) ++right;
      done.DecrementCount();
    });
  }
  done.Wait();
  EXPECT_EQ(right, kCalls);
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(runs[i], 1) << i;
}

TEST(ClientAsyncTest, RetriesWithTheServersHint) {
  test::FakeServer server;
  server.on_rerank = [&](auto&, auto&, auto&) {
    return server.num_reranks < 3 ? QueueFull(absl::Milliseconds(20)) : grpc::Status::OK;
  };
  const auto client = Connect(server);
  absl::Notification done;
  client->RerankAsync(std::make_shared<v1::RerankRequest>(Request("r")), {}, [&](auto response) {
    EXPECT_TRUE(response.ok()) << response.status();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(server.num_reranks, 3);
}

TEST(ClientAsyncTest, CancelReachesTheServer) {
  test::FakeServer server;
  absl::Notification arrived, cancelled_there;
  server.on_rerank = [&](grpc::ServerContext& context, auto&, auto&) {
    arrived.Notify();
    grpc::Status status = WaitUntilCancelled(context);
    if (context.IsCancelled()) cancelled_there.Notify();
    return status;
  };
  const auto client = Connect(server);
  absl::Notification done;
  const CallHandle call =
      client->RerankAsync(std::make_shared<v1::RerankRequest>(Request("r")), {}, [&](auto response) {
        EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
        done.Notify();
      });
  arrived.WaitForNotification();
  call.Cancel();
  done.WaitForNotification();
  EXPECT_TRUE(cancelled_there.WaitForNotificationWithTimeout(absl::FromChrono(test::kTestLimit)));
  call.Cancel();  // the call is over, so that nothing happens
  CallHandle().Cancel();
}

TEST(ClientAsyncTest, CancelEndsTheWaitBetweenAttempts) {
  test::FakeServer server;
  server.on_rerank = [](auto&, auto&, auto&) { return QueueFull(absl::Seconds(25)); };  // the client waits
  const auto client = Connect(server);
  absl::Notification done;
  const CallHandle call =
      client->RerankAsync(std::make_shared<v1::RerankRequest>(Request("r")), {}, [&](auto response) {
        EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
        done.Notify();
      });
  while (server.num_reranks == 0) absl::SleepFor(absl::Milliseconds(1));
  // Gives the call time to begin its wait before the next attempt. Without that, Cancel would end the attempt instead,
  // with the same result.
  absl::SleepFor(absl::Milliseconds(50));
  call.Cancel();
  done.WaitForNotification();
}

TEST(ClientAsyncTest, TheDestructorCancelsAndWaitsForCallbacks) {
  test::FakeServer server;
  server.on_rerank = [](grpc::ServerContext& context, auto&, auto&) { return WaitUntilCancelled(context); };
  std::atomic<int> callbacks{0};
  {
    const auto client = Connect(server);
    for (int i = 0; i < 10; ++i) {
      client->RerankAsync(std::make_shared<v1::RerankRequest>(Request("r")), {}, [&](auto response) {
        EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
        ++callbacks;
      });
    }
  }
  EXPECT_EQ(callbacks, 10);
}

TEST(RerankSessionTest, AnswersMatchRequestsAndErrorsLeaveTheStreamOpen) {
  test::FakeServer server;
  server.on_rerank = [](auto&, const v1::RerankRequest& request, auto&) {
    return request.request_id() == "1" ? QueueFull(absl::Milliseconds(25)) : grpc::Status::OK;
  };
  const auto client = Connect(server);
  const auto session = client->OpenSession();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->Send(Request(std::to_string(i))).ok());
  session->CloseSends();
  EXPECT_EQ(session->Send(Request("late")).code(), absl::StatusCode::kFailedPrecondition);
  v1::RerankStreamResponse answer;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(session->Receive(answer));
    EXPECT_EQ(answer.request_id(), std::to_string(i));
    const absl::Status status = StatusOf(answer);
    EXPECT_EQ(status.code(), i == 1 ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
    EXPECT_EQ(RetryAfter(status).value_or(absl::ZeroDuration()), absl::Milliseconds(i == 1 ? 25 : 0));
  }
  EXPECT_FALSE(session->Receive(answer));
  EXPECT_TRUE(session->Finish().ok());
}

TEST(RerankSessionTest, TimeoutAndCancelEndTheStream) {
  test::FakeServer server;
  server.on_rerank = [](grpc::ServerContext& context, auto&, auto&) { return WaitUntilCancelled(context); };
  const auto client = Connect(server);
  v1::RerankStreamResponse answer;
  {
    const auto session = client->OpenSession(absl::Milliseconds(200));
    ASSERT_TRUE(session->Send(Request("r")).ok());
    EXPECT_FALSE(session->Receive(answer));
    EXPECT_EQ(session->Finish().code(), absl::StatusCode::kDeadlineExceeded);
  }
  const auto session = client->OpenSession();
  ASSERT_TRUE(session->Send(Request("r")).ok());
  session->Cancel();
  EXPECT_FALSE(session->Receive(answer));
  EXPECT_EQ(session->Finish().code(), absl::StatusCode::kCancelled);
  client->OpenSession()->Cancel();  // the session is abandoned without Finish
}

}  // namespace
}  // namespace maxsim::client
