#include "server/observability/metrics.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/observability/process_metrics.h"
#include "tests/unit/server/observability/exposed_value.h"

namespace maxsim {
namespace {

using testing::HasSubstr;
using testing::Not;

Metrics::CollectionGauges Gauges(std::string_view storage, uint64_t generation, uint64_t num_documents,
                                 std::vector<Metrics::CollectionGauges::Resident> resident = {{"host", 0, 1000}}) {
  return {.storage = storage,
          .residency = "host",
          .generation = generation,
          .num_documents = num_documents,
          .num_tokens = 100,
          .resident = std::move(resident)};
}

TEST(MetricsTest, SpansAreCountedFromZeroOn) {
  Metrics metrics;
  EXPECT_EQ(ValueOf(metrics, "maxsim_spans_exported_total"), "0");
  for (const tracing::DropReason reason : tracing::kDropReasons) {
    const std::string series = "maxsim_spans_dropped_total{reason=\"" + std::string(Name(reason)) + "\"}";
    EXPECT_EQ(ValueOf(metrics, series), "0") << series;
    metrics.traces().CountDropped(reason, 2);
    metrics.traces().CountDropped(reason, 3);
    EXPECT_EQ(ValueOf(metrics, series), "5") << series;
  }
  metrics.traces().CountExported(7);
  EXPECT_EQ(ValueOf(metrics, "maxsim_spans_exported_total"), "7");
}

TEST(MetricsTest, RequestsAreCountedByMethodAndCode) {
  Metrics metrics;
  metrics.CountRequest("Rerank", absl::StatusCode::kOk, absl::Milliseconds(3));
  metrics.CountRequest("Rerank", absl::StatusCode::kOk, absl::Milliseconds(3));
  metrics.CountRequest("Rerank", absl::StatusCode::kInvalidArgument, absl::Microseconds(3));
  metrics.CountRequest("http", static_cast<absl::StatusCode>(999), absl::Microseconds(3));
  EXPECT_EQ(ValueOf(metrics, "maxsim_requests_total{code=\"OK\",method=\"Rerank\"}"), "2");
  EXPECT_EQ(ValueOf(metrics, "maxsim_requests_total{code=\"INVALID_ARGUMENT\",method=\"Rerank\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_requests_total{code=\"UNKNOWN\",method=\"http\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_request_duration_seconds_count{method=\"Rerank\"}"), "3");
  EXPECT_EQ(ValueOf(metrics, "maxsim_request_duration_seconds_bucket{method=\"Rerank\",le=\"0.0025\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_request_duration_seconds_bucket{method=\"Rerank\",le=\"0.005\"}"), "3");
}

TEST(MetricsTest, EveryRejectionReasonHasASeriesFromTheStart) {
  Metrics metrics;
  metrics.CountRejection(Rejection::kQueueFull);
  EXPECT_EQ(ValueOf(metrics, "maxsim_rejections_total{reason=\"queue_full\"}"), "1");
  for (const char* reason : {"deadline", "cancelled", "invalid", "not_found", "device", "shutdown", "queue_time",
                             "displaced", "loading", "memory", "http_full"}) {
    EXPECT_EQ(ValueOf(metrics, "maxsim_rejections_total{reason=\"" + std::string(reason) + "\"}"), "0") << reason;
  }
}

TEST(MetricsTest, BatchesFeedHistogramsAndTotals) {
  Metrics metrics;
  metrics.ObserveBatch(3, 1000, 200, 400, 1e-4, 2e-3);
  metrics.ObserveBatch(1, 500, 100, 200, 1e-4, 2e-3);
  metrics.ObserveQueueTime(absl::Microseconds(70));
  EXPECT_EQ(ValueOf(metrics, "maxsim_batch_queries_count"), "2");
  EXPECT_EQ(ValueOf(metrics, "maxsim_batch_queries_sum"), "4");
  EXPECT_EQ(ValueOf(metrics, "maxsim_scored_token_pairs_total"), "1500");
  EXPECT_EQ(ValueOf(metrics, "maxsim_scored_document_tokens_total"), "300");
  EXPECT_EQ(ValueOf(metrics, "maxsim_scored_document_bytes_total"), "600");
  EXPECT_EQ(ValueOf(metrics, "maxsim_queue_duration_seconds_count"), "1");
}

TEST(MetricsTest, DevicesHaveSeriesOfTheirOwn) {
  Metrics metrics;
  metrics.SetDevice(3, true, 2);
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_up{device=\"3\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_lanes_busy{device=\"3\"}"), "2");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_batches_total{device=\"3\"}"), "0") << "there from the start";
  metrics.ObserveDevice(3, {1000, 0.25, 0.5, 4000, 3, 1});
  metrics.ObserveDevice(3, {500, 0.25, 0.5, 6000, 4, 2});
  metrics.SetDevice(3, false, 0);
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_up{device=\"3\"}"), "0");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_batches_total{device=\"3\"}"), "2");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_scored_token_pairs_total{device=\"3\"}"), "1500");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_copy_seconds_total{device=\"3\"}"), "0.5");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_kernel_seconds_total{device=\"3\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_streamed_bytes_total{device=\"3\"}"), "10000");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_cache_hits_total{device=\"3\"}"), "7");
  EXPECT_EQ(ValueOf(metrics, "maxsim_device_cache_misses_total{device=\"3\"}"), "3");
}

TEST(MetricsTest, ARemovedCollectionHasNoSeries) {
  Metrics metrics;
  metrics.SetCollection("a", Gauges("f16", 2, 10, {{"gpu", 0, 700}, {"host", 0, 300}}));
  metrics.SetCollection("b", Gauges("i8", 1, 10));
  metrics.CountReload("a", true, absl::Seconds(1));
  metrics.CountReload("only loads", false, absl::Seconds(1));
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_generation{collection=\"a\"}"), "2");
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_info{collection=\"a\",residency=\"host\",storage=\"f16\"}"), "1");
  metrics.SetCollection("a", Gauges("i8", 3, 11, {{"host", 0, 400}, {"host", 1, 500}}));
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_info{collection=\"a\",residency=\"host\",storage=\"f16\"}"), "");
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_info{collection=\"a\",residency=\"host\",storage=\"i8\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_generation{collection=\"a\"}"), "3");
  const auto resident = [&](const std::string& device, const std::string& tier) {
    return ValueOf(
        metrics, "maxsim_collection_resident_bytes{collection=\"a\",device=\"" + device + "\",tier=\"" + tier + "\"}");
  };
  EXPECT_EQ(resident("0", "gpu"), "") << "the generation before had some there";
  EXPECT_EQ(resident("0", "host"), "400");
  EXPECT_EQ(resident("1", "host"), "500");
  metrics.RemoveCollection("a");
  metrics.RemoveCollection("only loads");
  metrics.RemoveCollection("never there");
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("collection=\"a\"")));
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("only loads")));
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_documents{collection=\"b\"}"), "10");
  metrics.SetCollection("a", Gauges("i8", 4, 11));
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_generation{collection=\"a\"}"), "4");
}

TEST(MetricsTest, TheFirstFailureOfACollectionIsAnIncrease) {
  Metrics metrics;
  metrics.CountReload("a", true, absl::Seconds(1));
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_loads_total{collection=\"a\",result=\"ok\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_loads_total{collection=\"a\",result=\"error\"}"), "0");
  metrics.CountReload("a", false, absl::Seconds(1));
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_loads_total{collection=\"a\",result=\"ok\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_loads_total{collection=\"a\",result=\"error\"}"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_collection_load_duration_seconds_count{collection=\"a\"}"), "2");
}

TEST(MetricsTest, GaugesShowTheLastValue) {
  Metrics metrics;
  metrics.SetQueue(7, 1234, 5678);
  metrics.SetInFlight(3);
  metrics.SetReady(true);
  metrics.SetMemory("device", "collections", 5e9);
  metrics.SetGpu(1, 0.5, 61, 300);
  EXPECT_EQ(ValueOf(metrics, "maxsim_queue_jobs"), "7");
  EXPECT_EQ(ValueOf(metrics, "maxsim_queue_token_pairs"), "1234");
  EXPECT_EQ(ValueOf(metrics, "maxsim_queue_bytes"), "5678");
  EXPECT_EQ(ValueOf(metrics, "maxsim_in_flight_jobs"), "3");
  EXPECT_EQ(ValueOf(metrics, "maxsim_ready"), "1");
  EXPECT_EQ(ValueOf(metrics, "maxsim_gpu_utilization_ratio{device=\"1\"}"), "0.5");
  EXPECT_THAT(metrics.Expose(), HasSubstr("maxsim_build_info{commit="));
}

TEST(MetricsTest, TheProcessIsDescribed) {
  Metrics metrics;
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
                           "process_max_fds", "process_start_time_seconds", "process_threads"}) {
    EXPECT_NE(ValueOf(metrics, name), "") << name;
  }
  EXPECT_GT(std::stod(ValueOf(metrics, "process_resident_memory_bytes")), 1e6);
  EXPECT_GT(std::stod(ValueOf(metrics, "process_start_time_seconds")), 1.6e9);
}

TEST(MetricsTest, ThreadsMayCountAtTheSameTime) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < 500; ++i) {
        metrics.CountRequest(t % 2 == 0 ? "Rerank" : "GetInfo", absl::StatusCode::kOk, absl::Microseconds(i));
        metrics.SetCollection("c" + std::to_string(t), Gauges("f16", 1, 1));
        if (i % 100 == 0) metrics.Expose();
        metrics.RemoveCollection("c" + std::to_string(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ValueOf(metrics, "maxsim_requests_total{code=\"OK\",method=\"Rerank\"}"), "1000");
}

TEST(ProcessMetricsTest, ACommandNameWithSpacesAndParenthesesIsSkipped) {
  ProcStat stat;
  ASSERT_TRUE(ParseProcStat(
      "42 (a (b) c 1 2) S 1 42 42 0 -1 4194560 100 0 0 0 11 22 0 0 20 0 5 0 777 123456 99 18446744073709551615",
      &stat));
  EXPECT_EQ(stat.user_ticks, 11);
  EXPECT_EQ(stat.system_ticks, 22);
  EXPECT_EQ(stat.num_threads, 5);
  EXPECT_EQ(stat.start_ticks, 777);
  EXPECT_EQ(stat.virtual_bytes, 123456);
  EXPECT_EQ(stat.resident_pages, 99);
  EXPECT_FALSE(ParseProcStat("", &stat));
  EXPECT_FALSE(ParseProcStat("42 (x) S 1 2", &stat));
}

}  // namespace
}  // namespace maxsim
