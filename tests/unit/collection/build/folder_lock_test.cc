// Tests FolderLock, which lets only one build at a time write into a folder.
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/output_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using Stage = BuildProgress::Stage;

// Each holder removes the lock's file when it releases the lock. A thread that waited for this file must not take the
// removed file for the lock while another thread has locked a new file.
TEST(FolderLockTest, HasOneHolderThoughItsFileComesAndGoes) {
  TemporaryFolder folder;
  std::atomic<int> holders{0}, overlaps{0}, taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5000; ++round) {
        const auto lock = FolderLock::Acquire(folder.path());
        if (!lock.ok()) {
          EXPECT_EQ(lock.status().code(), absl::StatusCode::kFailedPrecondition) << lock.status();
          continue;
        }
        if (++holders > 1) ++overlaps;
        ++taken;
        std::this_thread::yield();
        --holders;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_GT(taken, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FolderLockTest, AFileThatADeadProcessLeftIsTakenOver) {
  TemporaryFolder folder;
  WriteBytes(folder.Path(std::string(kLockFileName)), "");
  { EXPECT_TRUE(FolderLock::Acquire(folder.path()).ok()); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace maxsim::collection
