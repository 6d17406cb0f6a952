#include "loadtest/server_metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::loadtest {
namespace {

constexpr char kBefore[] = R"(# HELP maxsim_requests_total Calls answered.
# TYPE maxsim_requests_total counter
maxsim_requests_total{code="OK",method="Rerank"} 100
maxsim_requests_total{code="OK",method="GetInfo"} 5
maxsim_rejections_total{reason="queue_full"} 7
maxsim_rejections_total{reason="deadline"} 1000
maxsim_batch_queries_bucket{le="1"} 40
maxsim_batch_queries_sum 160
maxsim_batch_queries_count 40
maxsim_batch_kernel_duration_seconds_sum 1.5
maxsim_queue_jobs 9
maxsim_gpu_utilization_ratio{device="0"} 0.5
)";

constexpr char kLater[] = R"(maxsim_requests_total{code="OK",method="Rerank"} 300
maxsim_requests_total{code="OK",method="GetInfo"} 5
maxsim_requests_total{code="INTERNAL",method="a {b} \"c\""} 3 1700000000000
maxsim_rejections_total{reason="queue_full"} 11
maxsim_rejections_total{reason="queue_time"} 6
maxsim_rejections_total{reason="deadline"} 2000
maxsim_batch_queries_sum 400
maxsim_batch_queries_count 70
maxsim_batch_kernel_duration_seconds_sum 3.1
maxsim_queue_jobs 4
maxsim_gpu_utilization_ratio{device="0"} 0.9
maxsim_gpu_utilization_ratio{device="1"} 0.7
maxsim_gpu_power_watts{device="0"} 400
maxsim_gpu_power_watts{device="1"} 300.5
no value here
{nameless} 3
maxsim_nan NaN
)";

TEST(ScrapeTest, ReadsSeriesWithAndWithoutLabels) {
  const Scrape scrape(kLater);
  EXPECT_EQ(scrape.Sum("maxsim_queue_jobs"), 4);
  EXPECT_EQ(scrape.Sum("maxsim_requests_total"), 308);
  EXPECT_NEAR(*scrape.Mean("maxsim_gpu_utilization_ratio"), 0.8, 1e-12);
  EXPECT_EQ(scrape.WithLabel("maxsim_rejections_total", "reason=\"deadline\""), 2000);
  EXPECT_EQ(scrape.WithLabel("maxsim_rejections_total", "reason=\"other\""), std::nullopt);
  EXPECT_EQ(scrape.Sum("maxsim_queue"), std::nullopt);
  EXPECT_EQ(Scrape("").Sum("maxsim_queue_jobs"), std::nullopt);
}

TEST(ScrapeTest, TwoOfThemGiveRatesAndMeans) {
  const ServerSecond second = Compare(Scrape(kBefore), Scrape(kLater), 12, 2);
  EXPECT_EQ(second.at_s, 12);
  EXPECT_EQ(second.queue_jobs, 4);
  EXPECT_EQ(second.requests_per_second, 101.5);
  EXPECT_EQ(second.queue_full_per_second, 5) << "4 and 6 in two seconds; deadlines are no refusals";
  EXPECT_EQ(second.batch_queries_mean, 8);
  EXPECT_EQ(second.batches_per_second, 15);
  EXPECT_DOUBLE_EQ(*second.kernel_seconds, 0.8);
  EXPECT_NEAR(*second.gpu_utilization, 0.8, 1e-12);
  EXPECT_EQ(second.gpu_power_watts, 700.5);
  EXPECT_EQ(second.copy_seconds, std::nullopt) << "the server has no such metric";
}

TEST(ScrapeTest, AServerThatStartedAnewCountsFromZeroAndNoBatchHasNoMean) {
  const ServerSecond anew = Compare(Scrape(kLater), Scrape(kBefore), 1, 1);
  EXPECT_EQ(anew.requests_per_second, 105);
  EXPECT_EQ(anew.queue_full_per_second, 0);
  EXPECT_EQ(Compare(Scrape(kLater), Scrape(kLater), 1, 1).batch_queries_mean, std::nullopt);
}

TEST(MetricsScraperTest, RefusesWhatIsNoUrlAndSaysWhenNothingAnswers) {
  for (const char* url : {"", "localhost:7071/metrics", "https://localhost/metrics", "http://", "http:///metrics"}) {
    EXPECT_EQ(MetricsScraper::Create(url).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  // Port 1 is the multiplexer's, which no one runs.
  const auto scraper = MetricsScraper::Create("http://127.0.0.1:1/metrics");
  EXPECT_EQ(scraper.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(scraper.status().message()), testing::HasSubstr("http://127.0.0.1:1/metrics"));
}

}  // namespace
}  // namespace maxsim::loadtest
