#include "loadtest/run/server_metrics.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "tests/support/connections/certificates.h"

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
  EXPECT_TRUE(scrape.HasAny("maxsim_"));
  EXPECT_FALSE(Scrape("maxsi 1\nmaxsimd 1\nzero 1\n").HasAny("maxsim_"));
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
  for (const char* url :
       {"", "localhost:7071/metrics", "https://", "ftp://localhost/metrics", "http://", "http:///metrics"}) {
    EXPECT_EQ(MetricsScraper::Create(url).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  // Port 1 (tcpmux) is a port on which no machine listens today.
  const auto scraper = MetricsScraper::Create("http://127.0.0.1:1/metrics");
  EXPECT_EQ(scraper.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(scraper.status().message()), testing::HasSubstr("http://127.0.0.1:1/metrics"));
}

// Serves the metrics that the test sets. Answers with status 500 if `requests` is -1.
class MetricsServer {
 public:
  MetricsServer() {
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      if (requests < 0) {
        response.status = 500;
        return;
      }
      response.set_content("maxsim_requests_total " + std::to_string(requests) + "\n", "text/plain");
    });
    server_.Get("/readyz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ready\n", "text/plain");
    });
    server_.Get("/other", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("process_cpu_seconds_total 3\n", "text/plain");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~MetricsServer() {
    server_.stop();
    thread_.join();
  }

  std::string url(const std::string& path = "/metrics") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  std::atomic<int> requests{0};

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(MetricsScraperTest, APageWithoutMaxsimdsMetricsIsRefused) {
  MetricsServer server;
  for (const char* path : {"/readyz", "/other"}) {
    const auto scraper = MetricsScraper::Create(server.url(path));
    EXPECT_EQ(scraper.status().code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(std::string(scraper.status().message()),
                testing::HasSubstr(path + std::string(" answers, but shows none of")));
  }
}

TEST(MetricsScraperTest, ScrapesThroughTlsAndTrustsNobodyElsesCertificate) {
  const std::string folder = testing::TempDir() + "/maxsim_scraper_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const test::CertifiedKey own = test::MakeCertificate("server");
  std::ofstream(folder + "/cert.pem") << own.certificate;
  std::ofstream(folder + "/key.pem") << own.key;
  std::ofstream(folder + "/other.pem") << test::MakeCertificate("other").certificate;
  httplib::SSLServer server((folder + "/cert.pem").c_str(), (folder + "/key.pem").c_str());
  server.Get("/metrics", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("maxsim_requests_total 1\n", "text/plain");
  });
  const std::string url = "https://127.0.0.1:" + std::to_string(server.bind_to_any_port("127.0.0.1"));
  std::thread thread([&] { server.listen_after_bind(); });
  const auto trusting = MetricsScraper::Create(url, folder + "/cert.pem");
  EXPECT_TRUE(trusting.ok()) << trusting.status();
  EXPECT_EQ(MetricsScraper::Create(url, folder + "/other.pem").status().code(), absl::StatusCode::kUnavailable);
  server.stop();
  thread.join();
  std::filesystem::remove_all(folder);
}

double Grown(const ServerSecond& second) { return second.requests_per_second.value_or(-1) * second.seconds; }

TEST(MetricsScraperTest, ARunsFirstSecondBeginsWithTheRun) {
  MetricsServer server;
  auto scraper = MetricsScraper::Create(server.url());
  ASSERT_TRUE(scraper.ok()) << scraper.status();
  int failures = 0;
  for (const int at : {1000, 2000}) {  // two runs with one scraper, as in a sweep
    server.requests = at;              // counted while the requests were prepared
    (*scraper)->Begin();
    server.requests = at + 7;
    (*scraper)->Request(1);
    EXPECT_NEAR(Grown((*scraper)->Collect(failures).at(0)), 7, 1e-6);
  }
  EXPECT_EQ(failures, 0);
}

TEST(MetricsScraperTest, ARunWhoseFirstScrapeFailsHasNoSecondThatBeganBefore) {
  MetricsServer server;
  auto scraper = MetricsScraper::Create(server.url());
  ASSERT_TRUE(scraper.ok()) << scraper.status();
  server.requests = -1;
  (*scraper)->Begin();
  server.requests = 500;
  int failures = 0;
  (*scraper)->Request(1);
  EXPECT_EQ((*scraper)->Collect(failures).size(), 0u);
  EXPECT_EQ(failures, 1);
  server.requests = 511;
  (*scraper)->Request(2);
  const std::vector<ServerSecond> seconds = (*scraper)->Collect(failures);
  ASSERT_EQ(seconds.size(), 1u);
  EXPECT_EQ(seconds[0].at_s, 2);
  EXPECT_NEAR(Grown(seconds[0]), 11, 1e-6);
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace maxsim::loadtest
