// Tests the series of live collections in the text of the metrics.
#include "server/observability/live_metrics.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/observability/metrics.h"
#include "tests/unit/server/observability/exposed_value.h"

namespace maxsim {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Writes(const std::string& collection, const std::string& kind, const std::string& outcome) {
  return "maxsim_live_writes_total{collection=\"" + collection + "\",kind=\"" + kind + "\",outcome=\"" + outcome +
         "\"}";
}

GroupCommit Commit(uint64_t applied) {
  GroupCommit commit;
  commit.num_writes = applied;
  commit.log_time = absl::Milliseconds(2);
  commit.writes.of(WriteKind::kUpsert, WriteOutcome::kApplied) = applied;
  commit.requests.push_back({absl::Milliseconds(3), absl::Milliseconds(4)});
  return commit;
}

TEST(LiveMetricsTest, AGroupCommitIsCountedByKindAndOutcome) {
  Metrics metrics;
  GroupCommit commit = Commit(5);
  commit.num_writes = 7;
  commit.writes.of(WriteKind::kUpsert, WriteOutcome::kStale) = 3;
  commit.writes.of(WriteKind::kDelete, WriteOutcome::kApplied) = 2;
  commit.writes.of(WriteKind::kDelete, WriteOutcome::kNotFound) = 1;
  metrics.live().Observe("books", commit);
  metrics.live().Observe("books", Commit(1));
  EXPECT_EQ(ValueOf(metrics, Writes("books", "upsert", "applied")), "6");
  EXPECT_EQ(ValueOf(metrics, Writes("books", "upsert", "stale")), "3");
  EXPECT_EQ(ValueOf(metrics, Writes("books", "delete", "applied")), "2");
  EXPECT_EQ(ValueOf(metrics, Writes("books", "delete", "not_found")), "1");
  EXPECT_EQ(ValueOf(metrics, Writes("books", "delete", "failed")), "0") << "a series that rate() can begin at";
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_commit_writes_sum{collection=\"books\"}"), "8");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_commit_duration_seconds_count{collection=\"books\"}"), "2");
}

TEST(LiveMetricsTest, TokensThatI8KeepsTooLittleOfAreCountedByKind) {
  Metrics metrics;
  metrics.live().CountLossyTokens("books", 19, 2);
  metrics.live().CountLossyTokens("books", 1, 0);
  const std::string of = "maxsim_live_lossy_tokens_total{collection=\"books\",kind=";
  EXPECT_EQ(ValueOf(metrics, of + "\"zeroed\"}"), "20");
  EXPECT_EQ(ValueOf(metrics, of + "\"coarse\"}"), "2");
  metrics.live().Remove("books");
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr(of)));
}

TEST(LiveMetricsTest, TheTimesOfARequestUntilDurableAndVisibleAreObservedApart) {
  Metrics metrics;
  metrics.live().Observe("books", Commit(1));
  const auto bucket = [&](const std::string& of, const std::string& le) {
    return ValueOf(metrics, "maxsim_live_write_" + of + "_seconds_bucket{collection=\"books\",le=\"" + le + "\"}");
  };
  EXPECT_EQ(bucket("durable", "0.0025"), "0");
  EXPECT_EQ(bucket("durable", "0.005"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_write_durable_seconds_sum{collection=\"books\"}"), "0.003");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_write_visible_seconds_sum{collection=\"books\"}"), "0.004");
}

TEST(LiveMetricsTest, ACommitThatWroteNothingToTheLogIsNoneOfIt) {
  Metrics metrics;
  GroupCommit commit = Commit(0);
  commit.writes.of(WriteKind::kUpsert, WriteOutcome::kStale) = 4;
  metrics.live().Observe("books", commit);
  EXPECT_EQ(ValueOf(metrics, Writes("books", "upsert", "stale")), "4");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_commit_writes_count{collection=\"books\"}"), "0");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_write_visible_seconds_count{collection=\"books\"}"), "1");
}

TEST(LiveMetricsTest, CompactionsAreCountedByResult) {
  Metrics metrics;
  metrics.live().CountCompaction("books", CompactionResult::kOk, absl::Seconds(10), 5000);
  metrics.live().CountCompaction("books", CompactionResult::kFailed, absl::Seconds(1), 100);
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_compactions_total{collection=\"books\",result=\"ok\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_compactions_total{collection=\"books\",result=\"error\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_compactions_total{collection=\"books\",result=\"stopped\"}"), "0");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_compaction_written_bytes_total{collection=\"books\"}"), "5100");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_compaction_duration_seconds_sum{collection=\"books\"}"), "11");
}

TEST(LiveMetricsTest, GaugesShowWhatTheLogAndTheSegmentsHold) {
  Metrics metrics;
  metrics.live().SetSegmentLimit(1 << 20);
  metrics.live().Set("books", {.sequence = 90,
                               .compacted_sequence = 40,
                               .num_changed_documents = 30,
                               .num_deleted_documents = 20,
                               .num_segments = 2,
                               .segment_bytes = 4096,
                               .segment_used_bytes = 1024,
                               .log_bytes = 9000,
                               .accepts_writes = false,
                               .is_compacting = true});
  const auto value = [&](const std::string& name) {
    return ValueOf(metrics, "maxsim_live_" + name + "{collection=\"books\"}");
  };
  EXPECT_EQ(value("sequence"), "90");
  EXPECT_EQ(value("compacted_sequence"), "40");
  EXPECT_EQ(value("changed_documents"), "30");
  EXPECT_EQ(value("deleted_documents"), "20");
  EXPECT_EQ(value("segments"), "2");
  EXPECT_EQ(value("segment_bytes"), "4096");
  EXPECT_EQ(value("segment_used_bytes"), "1024");
  EXPECT_EQ(value("log_bytes"), "9000");
  EXPECT_EQ(value("accepts_writes"), "0");
  EXPECT_EQ(value("compacting"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_live_segment_limit_bytes"), "1048576");
}

TEST(LiveMetricsTest, OnlyACollectionThatFollowsAStreamHasSeriesOfOne) {
  Metrics metrics;
  metrics.live().Set("local", {.sequence = 1});
  metrics.live().Set("books", {.sequence = 90, .stream = LiveGauges::Stream{.connected = true, .lag = 7}});
  metrics.live().CountMessages("books", {5, 4, 3, 2, 1});
  metrics.live().CountMessages("books", {1, 0, 0, 0, 0});
  metrics.live().ObservePublish("books", absl::Milliseconds(500));
  const auto value = [&](const std::string& name) { return ValueOf(metrics, "maxsim_live_stream_" + name); };
  EXPECT_EQ(value("connected{collection=\"books\"}"), "1");
  EXPECT_EQ(value("lag{collection=\"books\"}"), "7");
  EXPECT_EQ(value("retention_margin_ratio{collection=\"books\"}"), "1");
  EXPECT_EQ(value("messages_total{collection=\"books\",result=\"applied\"}"), "6");
  EXPECT_EQ(value("messages_total{collection=\"books\",result=\"other_partition\"}"), "4");
  EXPECT_EQ(value("messages_total{collection=\"books\",result=\"unreadable\"}"), "1");
  EXPECT_EQ(value("publish_seconds_sum{collection=\"books\"}"), "0.5");
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("maxsim_live_stream_connected{collection=\"local\"}")));
  metrics.live().Set("books", {.stream = LiveGauges::Stream{.connected = false, .lag = 9, .retention_margin = 0.25}});
  EXPECT_EQ(value("retention_margin_ratio{collection=\"books\"}"), "0.25");
  EXPECT_EQ(value("connected{collection=\"books\"}"), "0");
  metrics.live().Remove("books");
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("books")));
}

TEST(LiveMetricsTest, ACollectionThatIsRemovedLeavesNoSeriesAndStaysInTheTotals) {
  Metrics metrics;
  metrics.live().Observe("books", Commit(5));
  metrics.live().Observe("news", Commit(2));
  metrics.live().CountCompaction("books", CompactionResult::kOk, absl::Seconds(10), 5000);
  metrics.live().Remove("books");
  metrics.live().Remove("books");
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("books")));
  EXPECT_EQ(ValueOf(metrics, Writes("news", "upsert", "applied")), "2");
  EXPECT_EQ(metrics.Totals().live.writes[static_cast<size_t>(WriteOutcome::kApplied)], 7u);
  metrics.live().Observe("books", Commit(1));
  EXPECT_EQ(ValueOf(metrics, Writes("books", "upsert", "applied")), "1") << "a collection of that name is another one";
}

TEST(LiveMetricsTest, TotalsHaveTheRequestsByBucket) {
  Metrics metrics;
  GroupCommit commit = Commit(1);
  commit.requests = {{absl::ZeroDuration(), absl::Microseconds(50)},
                     {absl::ZeroDuration(), absl::Microseconds(51)},
                     {absl::ZeroDuration(), absl::Seconds(60)}};
  metrics.live().Observe("books", commit);
  WriteCounts refused;
  refused.of(WriteKind::kDelete, WriteOutcome::kFailed) = 9;
  metrics.live().CountWrites("news", refused);
  const LiveTotals totals = metrics.Totals().live;
  ASSERT_EQ(totals.visible_counts.size(), totals.visible_bounds.size() + 1);
  EXPECT_EQ(totals.visible_counts[0], 1u) << "a bucket holds its limit";
  EXPECT_EQ(totals.visible_counts[1], 1u);
  EXPECT_EQ(totals.visible_counts.back(), 1u) << "one took a minute";
  EXPECT_EQ(totals.writes[static_cast<size_t>(WriteOutcome::kFailed)], 9u);
}

TEST(LiveMetricsTest, ManyThreadsCountAtOnce) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&metrics, name = thread % 2 == 0 ? "even" : "odd"] {
      for (int i = 0; i < 200; ++i) {
        metrics.live().Observe(name, Commit(1));
        metrics.live().Set(name, {.sequence = 1});
      }
    });
  }
  while (metrics.Totals().live.writes[0] < 100) metrics.live().Remove("none");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ValueOf(metrics, Writes("even", "upsert", "applied")), "400");
  EXPECT_EQ(ValueOf(metrics, Writes("odd", "upsert", "applied")), "400");
}

TEST(LiveMetricsTest, EveryLabelHasAName) {
  for (size_t outcome = 0; outcome < kNumWriteOutcomes; ++outcome) {
    EXPECT_NE(Name(static_cast<WriteOutcome>(outcome)), "other") << outcome;
  }
  EXPECT_EQ(Name(static_cast<WriteOutcome>(kNumWriteOutcomes)), "other");
  for (size_t result = 0; result < kNumCompactionResults; ++result) {
    EXPECT_NE(Name(static_cast<CompactionResult>(result)), "other") << result;
  }
  EXPECT_EQ(Name(static_cast<CompactionResult>(kNumCompactionResults)), "other");
  for (size_t outcome = 0; outcome < kNumStreamOutcomes; ++outcome) {
    EXPECT_NE(Name(static_cast<StreamOutcome>(outcome)), "other") << outcome;
  }
  EXPECT_EQ(Name(static_cast<StreamOutcome>(kNumStreamOutcomes)), "other");
}

}  // namespace
}  // namespace maxsim
