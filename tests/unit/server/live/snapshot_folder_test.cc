#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/log/collection_log.h"
#include "collection/partition/snapshot_folder.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

class SnapshotFolderTest : public LiveTest {
 protected:
  SnapshotFolderTest() {
    Create();
    Open();
    for (int64_t n = 0; n < 30; ++n) MustWrite(List(Upsert(absl::StrCat("d", n), n)));
    MustCompact();
    MustWrite(List(Upsert("d1", 100), Delete("d2"), Upsert("new", 5)));
  }
};

TEST_F(SnapshotFolderTest, OpensAsTheCollectionWas) {
  const Documents before = Now();
  const auto sequence = live().SnapshotTo(folder_ / "copy", nullptr);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ(*sequence, 33u);
  MustWrite(List(Upsert("later", 1)));
  MustCompact();
  Close();
  ASSERT_TRUE(TryOpen(folder_ / "copy").ok());
  EXPECT_EQ(Now(), before);
  MustWrite(List(Upsert("other", 2)));
  MustCompact();
  Reopen();
  EXPECT_EQ(Now().size(), before.size() + 1);
  EXPECT_TRUE(Now().contains("later"));
}

TEST_F(SnapshotFolderTest, IsNotMadeWhereThereIsSomething) {
  std::filesystem::create_directory(folder_ / "copy");
  EXPECT_EQ(live().SnapshotTo(folder_ / "copy", nullptr).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "copy"));
}

TEST_F(SnapshotFolderTest, IsMadeOnceByManyAtTheSameTime) {
  const Documents before = Now();
  std::filesystem::create_directory(folder_ / "other");
  const auto log = collection::CollectionLog::Open(folder_ / "other", collection::LogFormat::Of(Find()->manifest()),
                                                   collection::CollectionLog::Mode::kCreate);
  ASSERT_TRUE(log.ok()) << log.status();
  // Calls MakeSnapshotFolder itself in four threads. A live collection would make its snapshots one by one.
  std::atomic<int> num_made{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      const auto made = collection::MakeSnapshotFolder(path_, Find()->manifest(), **log, folder_ / "copy", nullptr);
      if (made.ok()) {
        ++num_made;
      } else {
        EXPECT_EQ(made.status().code(), absl::StatusCode::kAlreadyExists) << made.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_made, 1);
  EXPECT_TRUE(collection::ReadManifest(folder_ / "copy").ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST_F(SnapshotFolderTest, IsMadeBesideWhatAProcessThatDiedHasLeft) {
  const std::string left = folder_ / absl::StrCat(".copy.", getpid(), "-0.tmp");
  for (int n = 0; n < 40; ++n)
    std::filesystem::create_directory(folder_ / absl::StrCat(".copy.", getpid(), "-", n, ".tmp"));
  ASSERT_TRUE(live().SnapshotTo(folder_ / "copy", nullptr).ok());
  EXPECT_TRUE(std::filesystem::exists(left)) << "it may be another call's";
}

TEST_F(SnapshotFolderTest, LeavesNothingWhenItFails) {
  StopSignal stop;
  stop.Request(absl::StatusCode::kCancelled);
  EXPECT_FALSE(live().SnapshotTo(folder_ / "copy", &stop).ok());
  EXPECT_FALSE(live().SnapshotTo(folder_ / "missing/copy", nullptr).ok());
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) count += entry.exists() ? 1 : 0;
  EXPECT_EQ(count, 1);  // the collection
}

TEST_F(SnapshotFolderTest, IsWholeWhateverIsWrittenAndCompactedMeanwhile) {
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int64_t n = 0; !done; ++n) MustWrite(List(Upsert(absl::StrCat("w", n), n)));
  });
  std::thread compactor([&] {
    while (!done) MustCompact();
  });
  std::vector<uint64_t> sequences;
  for (int copy = 0; copy < 4; ++copy) {
    const auto sequence = live().SnapshotTo(folder_ / absl::StrCat("copy", copy), nullptr);
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    sequences.push_back(sequence.value_or(0));
  }
  done = true;
  writer.join();
  compactor.join();
  for (size_t copy = 0; copy < sequences.size(); ++copy) {
    Close();
    const absl::Status status = TryOpen(folder_ / absl::StrCat("copy", copy));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Find()->sequence(), sequences[copy]);
    // The first 33 writes left 30 documents. Each later write added one.
    EXPECT_EQ(Now().size(), sequences[copy] - 33 + 30);
  }
}

}  // namespace
}  // namespace maxsim::live
