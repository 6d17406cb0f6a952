#include <gtest/gtest.h>

#include "server/live/local/compactor.h"

namespace maxsim::live {
namespace {

const absl::Time kStart = absl::UnixEpoch();

LiveOptions Options() {
  LiveOptions options;
  options.compact_at_bytes = 1000;
  options.compact_at_tombstone_share = 0.2;
  options.compact_after = absl::Minutes(10);
  return options;
}

TEST(CompactionTriggerTest, IsNotDueWhereNothingWasWritten) {
  CompactionTrigger trigger(Options());
  EXPECT_EQ(trigger.Due(kStart), "");
  trigger.Observe({.sequence = 5, .compacted_sequence = 5, .segment_bytes = 5000}, kStart);
  trigger.NeedMemory();
  EXPECT_EQ(trigger.Due(kStart + absl::Hours(1)), "");
}

TEST(CompactionTriggerTest, IsDueAtSoManyBytes) {
  CompactionTrigger trigger(Options());
  trigger.Observe({.sequence = 1, .segment_bytes = 999}, kStart);
  EXPECT_EQ(trigger.Due(kStart), "");
  trigger.Observe({.sequence = 2, .segment_bytes = 1000}, kStart);
  EXPECT_EQ(trigger.Due(kStart), "bytes");
}

TEST(CompactionTriggerTest, IsDueAtAShareOfTombstonesOfCollectionsThatAreNotTiny) {
  CompactionTrigger trigger(Options());
  constexpr uint64_t kFew = CompactionTrigger::kMinTombstones - 1;
  trigger.Observe({.sequence = 1, .num_documents = 10, .num_tombstones = kFew}, kStart);
  EXPECT_EQ(trigger.Due(kStart), "");
  trigger.Observe({.sequence = 2, .num_documents = 8001, .num_tombstones = 2000}, kStart);
  EXPECT_EQ(trigger.Due(kStart), "");
  trigger.Observe({.sequence = 3, .num_documents = 8000, .num_tombstones = 2000}, kStart);
  EXPECT_EQ(trigger.Due(kStart), "tombstones");
}

TEST(CompactionTriggerTest, IsDueAtAnAgeOfTheOldestWrite) {
  CompactionTrigger trigger(Options());
  trigger.Observe({.sequence = 1}, kStart);
  trigger.Observe({.sequence = 2}, kStart + absl::Minutes(9));
  EXPECT_EQ(trigger.Due(kStart + absl::Minutes(9)), "");
  EXPECT_EQ(trigger.Due(kStart + absl::Minutes(10)), "age");
  // Write 1 has been compacted. The oldest remaining write is write 2, of minute 9, so a compaction is due at minute
  // 19.
  trigger.Observe({.sequence = 2, .compacted_sequence = 1}, kStart + absl::Minutes(11));
  EXPECT_EQ(trigger.Due(kStart + absl::Minutes(18)), "");
  EXPECT_EQ(trigger.Due(kStart + absl::Minutes(19)), "age");
  trigger.Observe({.sequence = 2, .compacted_sequence = 2}, kStart + absl::Minutes(20));
  EXPECT_EQ(trigger.Due(kStart + absl::Hours(2)), "");
  EXPECT_FALSE(trigger.oldest_write().has_value());
}

TEST(CompactionTriggerTest, ForgetsThatMemoryIsNeededOnceSomeIsFree) {
  CompactionTrigger trigger(Options());
  trigger.Observe({.sequence = 4}, kStart);
  trigger.NeedMemory();
  EXPECT_EQ(trigger.Due(kStart), "memory");
  trigger.Observe({.sequence = 5, .compacted_sequence = 4}, kStart);
  EXPECT_EQ(trigger.Due(kStart), "");
}

}  // namespace
}  // namespace maxsim::live
