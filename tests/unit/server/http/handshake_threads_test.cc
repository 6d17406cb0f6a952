// Tests the order of handshakes' steps.
#include "server/http/transport/handshake_threads.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::http {
namespace {

using testing::ElementsAre;

class HandshakeThreadsTest : public testing::Test {
 protected:
  // Keeps the only thread busy until Release(), so that work which is added meanwhile must wait.
  void Hold() {
    threads_.Add({}, [this] {
      MutexLock lock(&mutex_);
      held_ = true;
      changed_.NotifyAll();
      while (!released_) changed_.Wait(lock);
    });
    MutexLock lock(&mutex_);
    while (!held_) changed_.Wait(lock);
  }

  void Release() {
    MutexLock lock(&mutex_);
    released_ = true;
    changed_.NotifyAll();
  }

  uint64_t Add(uint8_t peer, const std::string& name) {
    return threads_.Add({peer}, [this, name] {
      MutexLock lock(&mutex_);
      ran_.push_back(name);
      changed_.NotifyAll();
    });
  }

  std::vector<std::string> WaitForAll(size_t count) {
    MutexLock lock(&mutex_);
    while (ran_.size() < count) changed_.Wait(lock);
    return ran_;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  bool held_ = false;
  bool released_ = false;
  std::vector<std::string> ran_;
  HandshakeThreads threads_{1};
};

TEST_F(HandshakeThreadsTest, PeersTakeTurnsAndTheNewestOfAPeerGoesFirst) {
  Hold();
  for (const char* name : {"1a", "1b", "1c"}) Add(1, name);
  Add(2, "2a");
  for (const char* name : {"3a", "3b"}) Add(3, name);
  Release();
  EXPECT_THAT(WaitForAll(6), ElementsAre("1c", "2a", "3b", "1b", "3a", "1a"));
}

TEST_F(HandshakeThreadsTest, AStepThatWaitsCanBeTakenBackOnce) {
  Hold();
  const uint64_t first = Add(1, "first");
  const uint64_t second = Add(1, "second");
  const uint64_t only = Add(2, "only");
  EXPECT_TRUE(threads_.Remove({1}, first));
  EXPECT_FALSE(threads_.Remove({1}, first));
  EXPECT_FALSE(threads_.Remove({2}, second)) << "it is another peer's";
  EXPECT_TRUE(threads_.Remove({2}, only));
  Release();
  EXPECT_THAT(WaitForAll(1), ElementsAre("second"));
  EXPECT_FALSE(threads_.Remove({1}, second)) << "it has run";
  Add(3, "third");
  EXPECT_THAT(WaitForAll(2), ElementsAre("second", "third"));
}

}  // namespace
}  // namespace maxsim::http
