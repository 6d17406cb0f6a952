#include "server/live/local/shared_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "collection/compact/create.h"
#include "server/live/live_collection.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

TEST(SharedThreadsTest, MakeAStepAfterEachWakeAndNeverTwoOfATaskAtOnce) {
  SharedThreads threads("test", 4);
  ASSERT_TRUE(threads.Start().ok());
  std::atomic<int> running{0};
  std::atomic<int> given{0};
  std::atomic<int> taken{0};
  std::promise<void> all;
  constexpr int kAll = 2000;
  SharedTask task(&threads, [&] {
    EXPECT_EQ(running.fetch_add(1), 0);
    if (taken.exchange(given) != kAll && taken == kAll) all.set_value();
    running.fetch_sub(1);
    return absl::InfiniteFuture();
  });
  for (int n = 0; n < kAll; ++n) {
    ++given;
    task.Wake();
  }
  all.get_future().wait();
}

TEST(SharedThreadsTest, MakeTheNextStepAtTheTimeThatOneReturns) {
  SharedThreads threads("test", 1);
  ASSERT_TRUE(threads.Start().ok());
  std::vector<absl::Time> times;
  std::promise<void> all;
  absl::Time due = absl::InfinitePast();
  SharedTask task(&threads, [&] {
    const absl::Time now = MonotonicNow();
    EXPECT_GE(now, due);
    times.push_back(now);
    if (times.size() == 4) {
      all.set_value();
      return absl::InfiniteFuture();
    }
    return due = times.size() == 1 ? absl::InfinitePast() : now + absl::Milliseconds(5);
  });
  task.Wake();
  all.get_future().wait();
  task.Stop();
  EXPECT_EQ(times.size(), 4u);
}

TEST(SharedThreadsTest, MakeNoStepOnceTheTaskIsStoppedAndGoOnWithOthers) {
  SharedThreads threads("test", 2);
  ASSERT_TRUE(threads.Start().ok());
  std::promise<void> began;
  std::promise<void> end;
  const std::shared_future<void> ended(end.get_future());
  std::atomic<int> steps{0};
  SharedTask stopped(&threads, [&] {
    if (++steps == 1) began.set_value();
    ended.wait();
    return absl::InfinitePast();
  });
  stopped.Wake();
  began.get_future().wait();
  std::promise<void> other_ran;
  SharedTask other(&threads, [&] {
    other_ran.set_value();
    return absl::InfiniteFuture();
  });
  other.Wake();
  other_ran.get_future().wait();  // while the first task still waits
  end.set_value();
  stopped.Stop();
  const int before = steps;
  stopped.Wake();
  EXPECT_EQ(steps, before);
}

class ManyCollectionsTest : public LiveTest {
 protected:
  // Creates a live collection and loads it into the store that all collections of the test share.
  absl::Status Add(const std::string& name) {
    const std::string path = folder_ / name;
    const auto made = collection::CreateLiveCollection(path, {.name = name, .dim = kDim});
    if (!made.ok()) return made.status();
    return store_->Load(name, path, store::Residency::kAuto, store::Replication::kAuto, "", nullptr, true).status();
  }
  static size_t NumThreads() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) count += entry.exists() ? 1 : 0;
    return count;
  }
};

TEST_F(ManyCollectionsTest, ShareTheirThreads) {
  Create();
  Open();
  MustWrite(List(Upsert("a", 1)));
  const size_t before = NumThreads();
  constexpr int kCollections = 14;  // with two threads of their own each, they would have more than 12
  for (int n = 0; n < kCollections; ++n) {
    const absl::Status added = Add(absl::StrCat("c", n));
    ASSERT_TRUE(added.ok()) << added;
  }
  EXPECT_LE(NumThreads(), before + 12) << "8 that write and 4 that compact";
  for (int n = 0; n < kCollections; ++n) {
    live_ = *store_->FindLive(absl::StrCat("c", n));
    EXPECT_EQ(MustWrite(List(Upsert("a", n))).sequence, 1u);
  }
}

TEST_F(ManyCollectionsTest, BeyondTheLimitAreRefusedAndOneThatIsUnloadedMakesRoom) {
  Create();
  Open();
  for (int n = 1; n < kMaxCollections; ++n) {
    const absl::Status added = Add(absl::StrCat("c", n));
    ASSERT_TRUE(added.ok()) << added;
  }
  const absl::Status refused = Add("beyond");
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("collection beyond: 15 live collections are open, and "
                                                        "live.max_collections is 15"));
  MustWrite(List(Upsert("a", 1)));
  ASSERT_TRUE(store_->Unload("c1").ok());
  const auto loaded =
      store_->Load("beyond", folder_ / "beyond", store::Residency::kAuto, store::Replication::kAuto, "", nullptr, true);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

// Forks a process that may not start threads. In it, SharedThreads must return an error that names the thread.
TEST_F(ManyCollectionsTest, AreRefusedWhereTheSystemHasNoThreadLeft) {
  if (test::kSanitized)
    GTEST_SKIP() << "not with a sanitizer: ThreadSanitizer does not know threads that begin after a fork";
  Create();
  store_ = nullptr;
  const pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    const rlimit none{1, 1};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(4);
    SharedThreads threads("test", 1);
    const absl::Status status = threads.Start();
    _exit(absl::IsResourceExhausted(status) && absl::StrContains(status.message(), "cannot start the thread test") ? 0
                                                                                                                   : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace maxsim::live
