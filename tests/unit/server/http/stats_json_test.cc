// Tests the text of /v1/stats.
#include "server/http/stats_json.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace maxsim::http {
namespace {

using nlohmann::json;

TEST(StatsJsonTest, HasAColumnPerFigureAndANumberPerSample) {
  Activity::History history;
  ActivitySample idle{.seconds = 5};
  idle.devices.push_back({.number = 1, .up = true, .busy = 0});
  ActivitySample busy{.seconds = 4};
  busy.answers[0] = 10;
  busy.answers[8] = 2;
  busy.rejections[static_cast<size_t>(Rejection::kQueueFull)] = 2;
  busy.p50_us = 750.12345;
  busy.p99_us = 2000;
  busy.mean_batch_queries = 2.5;
  busy.queue_jobs = 3;
  busy.encoder_calls = 1;
  busy.encoder_cache_hits = 3;
  busy.encoder_cache_misses = 1;
  busy.writes[static_cast<size_t>(WriteOutcome::kApplied)] = 400;
  busy.writes[static_cast<size_t>(WriteOutcome::kNotFound)] = 4;
  busy.write_p50_us = 1500;
  busy.write_p99_us = 2500.12345;
  busy.devices.push_back({.number = 1, .up = true, .busy = 0.25});
  history.samples = {idle, busy};
  history.devices.push_back({.number = 1,
                             .up = true,
                             .memory_bytes = 1000,
                             .free_bytes = 400,
                             .collection_bytes = 500,
                             .budget_bytes = 800,
                             .backend = "cuda",
                             .name = "A device"});
  history.end = absl::UnixEpoch();
  const json stats = json::parse(FormatStats(history, absl::UnixEpoch() + absl::Milliseconds(1500)));
  EXPECT_EQ(stats["age_s"], 1.5);
  EXPECT_EQ(stats["interval_s"], 5);
  EXPECT_EQ(stats["seconds"], json({5.0, 4.0}));
  EXPECT_EQ(stats["requests"], json({{"OK", {0.0, 2.5}}, {"RESOURCE_EXHAUSTED", {0.0, 0.5}}}));
  EXPECT_EQ(stats["rejections"], json({{"queue_full", {0.0, 0.5}}}));
  EXPECT_EQ(stats["p50_us"], json({nullptr, 750.123}));
  EXPECT_EQ(stats["p99_us"], json({nullptr, 2000.0}));
  EXPECT_EQ(stats["batch_queries"], json({nullptr, 2.5}));
  EXPECT_EQ(stats["queue_jobs"], json({0.0, 3.0}));
  EXPECT_EQ(stats["encoder_calls"], json({0.0, 0.25}));
  EXPECT_EQ(stats["encoder_cache_hit_ratio"], json({nullptr, 0.75}));
  EXPECT_EQ(stats["writes"], json({{"applied", {0.0, 100.0}}, {"not_found", {0.0, 1.0}}}));
  EXPECT_EQ(stats["write_p50_us"], json({nullptr, 1500.0}));
  EXPECT_EQ(stats["write_p99_us"], json({nullptr, 2500.123}));
  EXPECT_EQ(stats["devices"], json::array({{{"number", 1},
                                            {"up", true},
                                            {"backend", "cuda"},
                                            {"name", "A device"},
                                            {"memory_bytes", 1000},
                                            {"free_bytes", 400},
                                            {"collection_bytes", 500},
                                            {"budget_bytes", 800},
                                            {"busy", {0.0, 0.25}}}}));
}

TEST(StatsJsonTest, HasEmptyColumnsBeforeTheFirstSample) {
  const json stats = json::parse(FormatStats({}, absl::UnixEpoch()));
  EXPECT_TRUE(stats["age_s"].is_null());
  EXPECT_EQ(stats["seconds"], json::array());
  EXPECT_EQ(stats["requests"], json({{"OK", json::array()}}));
  EXPECT_EQ(stats["writes"], json::object());
  EXPECT_EQ(stats["write_p50_us"], json::array());
  EXPECT_EQ(stats["devices"], json::array());
}

}  // namespace
}  // namespace maxsim::http
