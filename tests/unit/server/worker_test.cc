#include "server/rpc/worker.h"

#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::rpc {
namespace {

TEST(WorkerTest, TasksRunOneAfterAnotherInTheirOrder) {
  std::vector<int> order;
  std::promise<void> done;
  Worker worker;
  for (int i = 0; i < 10; ++i) {
    worker.Post([&order, &done, i](const absl::Status& turn) {
      EXPECT_TRUE(turn.ok());
      order.push_back(i);
      if (i == 9) done.set_value();
    });
  }
  done.get_future().wait();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(WorkerTest, StopLetsTheRunningTaskFinishAndTellsTheOthers) {
  std::promise<void> begun, release;
  std::atomic<int> ran{0};
  std::vector<absl::Status> turns;
  std::optional<Worker> worker(std::in_place);
  worker->Post([&](const absl::Status&) {
    begun.set_value();
    release.get_future().wait();
    ++ran;
  });
  begun.get_future().wait();
  const auto note = [&](const absl::Status& turn) { turns.push_back(turn); };
  worker->Post(note);
  worker->Post(note);
  EXPECT_TRUE(turns.empty());
  worker->Stop();
  ASSERT_EQ(turns.size(), 2u) << "told at once, while the first still runs";
  worker->Post(note);
  worker->Stop();
  ASSERT_EQ(turns.size(), 3u);
  for (const absl::Status& turn : turns) EXPECT_EQ(turn, absl::UnavailableError("the server is draining"));
  EXPECT_EQ(ran, 0);
  release.set_value();
  worker.reset();
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace maxsim::rpc
