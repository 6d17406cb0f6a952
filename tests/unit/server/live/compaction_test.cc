// Tests compactions while writes go on: no write may be lost or appear twice in the next generation (version).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/output_file.h"
#include "base/stop.h"
#include "client/status.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

class CompactionTest : public LiveTest {
 protected:
  CompactionTest() {
    Create();
    Open();
  }
  Documents WriteSome(int64_t count, int64_t first = 0) {
    for (int64_t n = first; n < first + count; ++n) {
      MustWrite(List(Upsert(absl::StrCat("d", n), n)));
      expected_[absl::StrCat("d", n)] = n;
    }
    return expected_;
  }
  void Remove(const std::string& id) {
    MustWrite(List(Delete(id)));
    expected_.erase(id);
  }

  Documents expected_;
};

TEST_F(CompactionTest, MovesWhatWasWrittenToShards) {
  WriteSome(50);
  Remove("d7");
  const auto before = Find();
  MustCompact();
  const auto after = Find();
  EXPECT_EQ(after->manifest().generation, before->manifest().generation + 1);
  EXPECT_EQ(after->manifest().num_documents, 49);
  EXPECT_EQ(after->sequence(), 51u);
  EXPECT_EQ(live().state().compacted_sequence, 51u);
  EXPECT_EQ(live().state().num_segments, 0u);
  EXPECT_EQ(Contents(*after), expected_);
  EXPECT_EQ(Contents(*before), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, OfNothingChangesNothing) {
  WriteSome(3);
  MustCompact();
  bool changed = true;
  EXPECT_TRUE(live().Compact(nullptr, &changed).ok());
  EXPECT_FALSE(changed);
}

TEST_F(CompactionTest, IsFollowedByWritesOverTheNewGeneration) {
  WriteSome(40);
  MustCompact();
  for (int64_t n = 0; n < 10; ++n) {
    MustWrite(List(Upsert(absl::StrCat("d", n), 100 + n)));
    expected_[absl::StrCat("d", n)] = 100 + n;
  }
  Remove("d20");
  WriteSome(5, 40);
  EXPECT_EQ(Now(), expected_);
  EXPECT_EQ(live().state().num_deleted_documents, 11u);
  Reopen();
  EXPECT_EQ(Now(), expected_);
  MustCompact();
  EXPECT_EQ(Now(), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, DropsTheLogOnceTheGenerationIsServed) {
  WriteSome(30);
  MustCompact();
  WriteSome(1, 30);
  // The log drops old writes after a compaction. Without them it cannot compute the tombstones (deleted documents) of
  // an older generation, so TombstonesOf returns DATA_LOSS.
  EXPECT_TRUE(Eventually([&] {
    collection::Manifest old = Find()->manifest();
    old.log_sequence = 5;
    return absl::IsDataLoss(live().TombstonesOf(old).status());
  }));
  collection::Manifest beyond = Find()->manifest();
  beyond.log_sequence = 32;
  const absl::Status status = live().TombstonesOf(beyond).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to sequence 32, but the log's last one is 31"));
  beyond.log_sequence = std::nullopt;
  EXPECT_THAT(std::string(live().TombstonesOf(beyond).status().message()), HasSubstr("--log-sequence"));
}

TEST_F(CompactionTest, LeavesTheLogWhileSomebodyBuilds) {
  WriteSome(30);
  const auto has_dropped = [&](uint64_t sequence) {
    collection::Manifest old = Find()->manifest();
    old.log_sequence = sequence;
    return absl::IsDataLoss(live().TombstonesOf(old).status());
  };
  {
    // Holds the folder's lock, as a running build does. A build may have started from an early state and may still
    // publish a generation with only the first five writes. So the log must keep all later writes until the build ends.
    const absl::StatusOr<FolderLock> build = FolderLock::Acquire(path_);
    ASSERT_TRUE(build.ok()) << build.status();
    collection::Manifest manifest = *collection::ReadManifest(path_);
    ++manifest.generation;
    manifest.log_sequence = 10;
    ASSERT_TRUE(collection::PublishManifest(manifest, path_).ok());
    ASSERT_TRUE(store_->Reload("c", nullptr).ok());
    for (int round = 0; round < 30; ++round) {
      ASSERT_FALSE(has_dropped(5));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  MustCompact();
  EXPECT_TRUE(Eventually([&] { return has_dropped(5); }));
}

TEST_F(CompactionTest, LosesAndDoublesNothingThatIsWrittenMeanwhile) {
  constexpr int kThreads = 3;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  std::vector<Documents> written(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t n = 0; !done; ++n) {
        const std::string id = absl::StrCat(thread, "-", n % 37);
        const auto results = n % 7 == 6 ? Write(List(Delete(id))) : Write(List(Upsert(id, n)));
        ASSERT_TRUE(results.ok()) << results.status();
        const auto seen = Find();
        const auto ordinal = seen->Find(id);
        if (n % 7 == 6) {
          written[thread].erase(id);
          EXPECT_FALSE(ordinal.has_value());
        } else {
          written[thread][id] = n;
          ASSERT_TRUE(ordinal.has_value());
          EXPECT_EQ(seen->payload(*ordinal), absl::StrCat("{\"value\":", n, "}"));
        }
      }
    });
  }
  // Reads the same snapshot twice. Both reads must agree, even if a new generation is published between them.
  threads.emplace_back([&] {
    while (!done) {
      const auto seen = Find();
      const Documents first = Contents(*seen);
      std::this_thread::yield();
      EXPECT_EQ(Contents(*seen), first);
    }
  });
  for (int round = 0; round < 6; ++round) {
    const uint64_t before = live().state().sequence;
    ASSERT_TRUE(Eventually([&] { return live().state().sequence > before + 30; }));
    MustCompact();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  for (const Documents& of_thread : written) expected_.insert(of_thread.begin(), of_thread.end());
  EXPECT_EQ(Now(), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, SharesTheSegmentsOfLaterWrites) {
  WriteSome(20);
  // Reloading the same generation must share all segments instead of copying rows.
  ASSERT_TRUE(store_->Reload("c", nullptr).ok());
  EXPECT_EQ(Now(), expected_);
  WriteSome(20, 20);
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, BeginsAtSoManyBytes) {
  options_.compact_at_bytes = 2000;
  Reopen();
  WriteSome(100);
  EXPECT_TRUE(Eventually([&] { return live().state().compacted_sequence > 0; }));
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, BeginsAtSoManyBytesOfPayloads) {
  options_.compact_at_bytes = 100'000;
  Reopen();
  WriteSome(10);
  store::Write large = Upsert("large", 3);
  large.payload = "{\"value\":3}" + std::string(100'000, ' ');
  MustWrite(List(large));
  expected_["large"] = 3;
  EXPECT_TRUE(Eventually([&] { return live().state().compacted_sequence == 11; }));
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, MakesRoomWhenSegmentsAreFull) {
  options_.max_segment_bytes = 8192;
  Reopen();
  int refused = 0;
  for (int64_t n = 0; n < 60; ++n) {
    while (true) {
      const auto results = Write(List(Upsert(absl::StrCat("d", n), n)));
      if (results.ok()) break;
      ASSERT_TRUE(absl::IsResourceExhausted(results.status())) << results.status();
      ASSERT_TRUE(client::RetryAfter(results.status()).has_value());
      ++refused;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    expected_[absl::StrCat("d", n)] = n;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(live().state().compacted_sequence, 0u);
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, IsNotBegunByFullSegmentsWhereItIsOff) {
  options_.compact = false;
  options_.max_segment_bytes = 8192;
  Reopen();
  absl::Status status;
  for (int64_t n = 0; status.ok(); ++n) {
    status = Write(List(Upsert(absl::StrCat("d", n), n))).status();
    if (status.ok()) expected_[absl::StrCat("d", n)] = n;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("live.compact is off"));
  EXPECT_EQ(live().state().status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Now(), expected_);
  // A call is written completely or not at all. In this one the upserts do not fit, so the delete is not written
  // either. A call with only deletes always fits.
  EXPECT_FALSE(Write(List(Delete("d0"), Upsert("x", 1), Upsert("y", 2))).ok());
  EXPECT_EQ(Now(), expected_);
  Remove("d0");
  EXPECT_EQ(Now(), expected_);
  MustCompact();
  EXPECT_TRUE(live().state().status.ok());
  WriteSome(1, 1000);
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, IsStoppedByUnload) {
  WriteSome(20);
  std::thread compaction([live = live_] {
    bool changed = false;
    live->Compact(nullptr, &changed).IgnoreError();
  });
  ASSERT_TRUE(store_->Unload("c").ok());
  compaction.join();
  Open();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, ThatWasNeverPublishedLeavesNoTombstonesBehindAStart) {
  WriteSome(50);
  MustCompact();
  collection::Manifest next = Find()->manifest();
  ASSERT_EQ(next.shards.size(), 1u);
  live_.reset();
  Close();
  ++next.generation;
  {
    // Leaves the log as a crash just before the manifest's publication would: with tombstones (deleted documents) of a
    // generation that was never published. The next start must remove them.
    const auto log = collection::CollectionLog::Open(path_, collection::LogFormat::Of(next),
                                                     collection::CollectionLog::Mode::kMustExist);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE((*log)->PutTombstones(next, {{3}}).ok());
    ASSERT_EQ((*log)->TombstonesOf(next)->front().size(), 1u);
  }
  Open();
  EXPECT_TRUE(Eventually([&] {
    const auto noted = live().TombstonesOf(next);
    return noted.ok() && noted->front().empty();
  }));
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, TakesNoSegmentWhereItFails) {
  options_.compact = false;
  options_.max_segment_bytes = 8192;  // of two segments, of four documents each
  Reopen();
  for (int64_t n = 0; n < 4; ++n) {
    WriteSome(1, n);
    const auto lock = FolderLock::Acquire(path_);
    ASSERT_TRUE(lock.ok()) << lock.status();
    bool changed = false;
    EXPECT_FALSE(live().Compact(nullptr, &changed).ok());
    EXPECT_FALSE(changed);
    EXPECT_EQ(live().state().num_segments, 1u);
  }
  WriteSome(4, 4);
  EXPECT_EQ(Now(), expected_);
  MustCompact();
  EXPECT_EQ(Now(), expected_);
  WriteSome(4, 8);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(CompactionTest, TakesOneSegmentHoweverOftenItFailsWhileSomebodyWrites) {
  options_.compact = false;
  options_.compact_bytes_per_second = 1000;
  Reopen();
  int64_t n = 0;
  WriteSome(1, n++);
  const auto compact_while_writing = [&](bool stopped) {
    StopSignal stop;
    absl::Status status;
    bool changed = false;
    std::thread compaction([&] { status = live().Compact(&stop, &changed); });
    EXPECT_TRUE(Eventually([&] { return live().state().is_compacting; }));
    WriteSome(1, n++);
    if (stopped) stop.Request(absl::StatusCode::kCancelled);
    compaction.join();
    EXPECT_EQ(changed, !stopped) << status;
  };
  for (int round = 0; round < 6; ++round) {
    compact_while_writing(true);
    EXPECT_LE(live().state().num_segments, 3u);
    EXPECT_LE(live().state().segment_bytes, 14'000u) << "the third is as large as what the first two hold";
  }
  EXPECT_EQ(Now(), expected_);
  // This compaction succeeds. The new generation must hold the writes from before it, and the segments in memory those
  // that were made during it.
  compact_while_writing(false);
  EXPECT_EQ(Now(), expected_);
  EXPECT_EQ(live().state().compacted_sequence, live().state().sequence - 1);
  EXPECT_EQ(live().state().num_segments, 1u);
  WriteSome(1, n++);
  EXPECT_EQ(live().state().num_segments, 1u);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

}  // namespace
}  // namespace maxsim::live
