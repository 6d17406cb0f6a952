#include "server/service/call/worker.h"

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::service {
namespace {

TEST(WorkerTest, TasksRunOneAfterAnotherInTheirOrder) {
  std::vector<int> order;
  std::promise<void> done;
  Worker worker;
  for (int i = 0; i < 10; ++i) {
    worker.Post("a", Worker::Length::kLong, nullptr, [&order, &done, i](const absl::Status& turn) {
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
  worker->Post("a", Worker::Length::kLong, nullptr, [&](const absl::Status&) {
    begun.set_value();
    release.get_future().wait();
    ++ran;
  });
  begun.get_future().wait();
  const auto note = [&](const absl::Status& turn) { turns.push_back(turn); };
  worker->Post("a", Worker::Length::kLong, nullptr, note);
  worker->Post("a", Worker::Length::kLong, nullptr, note);
  EXPECT_TRUE(turns.empty());
  worker->Stop();
  ASSERT_EQ(turns.size(), 2u) << "told at once, while the first still runs";
  worker->Post("a", Worker::Length::kLong, nullptr, note);
  worker->Stop();
  ASSERT_EQ(turns.size(), 3u);
  for (const absl::Status& turn : turns) EXPECT_EQ(turn, absl::UnavailableError("the server is draining"));
  EXPECT_EQ(ran, 0);
  release.set_value();
  worker.reset();
  EXPECT_EQ(ran, 1);
}

// Makes a task that blocks until the test releases it.
class Blocked {
 public:
  Worker::Task Task() {
    return [this](const absl::Status& turn) {
      EXPECT_TRUE(turn.ok()) << turn;
      begun_.set_value();
      release_.get_future().wait();
    };
  }
  void WaitUntilItRuns() { begun_.get_future().wait(); }
  void Release() { release_.set_value(); }

 private:
  std::promise<void> begun_, release_;
};

TEST(WorkerTest, TasksOfDifferentKeysRunSideBySideUpToTheBound) {
  std::vector<Blocked> tasks(Worker::kMaxLong + 1);
  std::promise<void> short_one, last;
  Worker worker;
  for (size_t i = 0; i < Worker::kMaxLong; ++i) {
    worker.Post(std::to_string(i), Worker::Length::kLong, nullptr, tasks[i].Task());
    tasks[i].WaitUntilItRuns();  // all tasks before it still run
  }
  std::atomic<bool> ran{false};
  worker.Post("beyond", Worker::Length::kLong, nullptr, [&](const absl::Status&) {
    ran = true;
    last.set_value();
  });
  worker.Post("unload", Worker::Length::kShort, nullptr, [&](const absl::Status&) { short_one.set_value(); });
  short_one.get_future().wait();
  EXPECT_FALSE(ran) << "the bound holds";
  tasks[3].Release();
  last.get_future().wait();
  for (size_t i = 0; i < Worker::kMaxLong; ++i) {
    if (i != 3) tasks[i].Release();
  }
}

TEST(WorkerTest, TasksOfOneKeyWaitForEachOtherWhateverTheirLength) {
  Blocked first;
  std::atomic<bool> ran{false};
  std::promise<void> other;
  {
    Worker worker;
    worker.Post("a", Worker::Length::kLong, nullptr, first.Task());
    first.WaitUntilItRuns();
    worker.Post("a", Worker::Length::kShort, nullptr, [&](const absl::Status& turn) { ran = turn.ok(); });
    worker.Post("b", Worker::Length::kShort, nullptr, [&](const absl::Status&) { other.set_value(); });
    other.get_future().wait();
    EXPECT_FALSE(ran);
    first.Release();
    std::promise<void> done;
    worker.Post("a", Worker::Length::kLong, nullptr, [&](const absl::Status&) { done.set_value(); });
    done.get_future().wait();
    EXPECT_TRUE(ran);
  }
}

TEST(WorkerTest, AWithdrawnTaskIsToldAtOnceAndNeverRuns) {
  Blocked first;
  Worker worker;
  worker.Post("a", Worker::Length::kLong, nullptr, first.Task());
  first.WaitUntilItRuns();
  const auto stop = std::make_shared<StopSignal>();
  absl::Status told;
  worker.Post("a", Worker::Length::kLong, stop, [&](const absl::Status& turn) { told = turn; });
  EXPECT_TRUE(told.ok());
  stop->Request(absl::StatusCode::kCancelled);
  worker.Withdraw(stop.get());
  EXPECT_TRUE(absl::IsCancelled(told)) << told;
  told = absl::OkStatus();
  worker.Post("a", Worker::Length::kLong, stop, [&](const absl::Status& turn) { told = turn; });
  EXPECT_TRUE(absl::IsCancelled(told)) << "stopped before it was posted";
  first.Release();
}

TEST(WorkerTest, TooManyThatWaitAreRefused) {
  Blocked first;
  std::atomic<size_t> waited{0};
  std::optional<Worker> worker(std::in_place);
  worker->Post("a", Worker::Length::kLong, nullptr, first.Task());
  first.WaitUntilItRuns();
  for (size_t i = 0; i < Worker::kMaxWaiting; ++i) {
    worker->Post("a", Worker::Length::kLong, nullptr, [&](const absl::Status&) { ++waited; });
  }
  EXPECT_EQ(waited, 0u);
  absl::Status refused;
  worker->Post("a", Worker::Length::kLong, nullptr, [&](const absl::Status& turn) { refused = turn; });
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  first.Release();
  worker.reset();
  EXPECT_EQ(waited, Worker::kMaxWaiting) << "each is told";
}

}  // namespace
}  // namespace maxsim::service
