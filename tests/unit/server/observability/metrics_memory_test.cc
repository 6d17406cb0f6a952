// Tests that a metric's series that could not be made for lack of memory is made at its next use.
#include <functional>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/observability/metrics.h"
#include "tests/support/values/failing_memory.h"

namespace maxsim {
namespace {

using testing::HasSubstr;

// Calls `use` on new metrics with memory for 0, 1, 2, ... allocations, and then once more with enough memory. After
// that, the metrics must show `shown`.
void ExpectMadeLater(const std::function<void(Metrics&)>& use, const std::string& shown) {
  for (int64_t count = 0;; ++count) {
    Metrics metrics;
    bool has_failed = false;
    try {
      const test::MemoryEnds ends(count);
      use(metrics);
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    use(metrics);
    ASSERT_THAT(metrics.Expose(), HasSubstr(shown)) << count;
    if (!has_failed) return;
  }
}

TEST(MetricsMemoryTest, OfCallsAndDevices) {
  ExpectMadeLater(
      [](Metrics& metrics) {
        metrics.CountRequest("AMethodWithALongName", absl::StatusCode::kOk, absl::ZeroDuration());
      },
      "maxsim_requests_total{code=\"OK\",method=\"AMethodWithALongName\"} ");
  ExpectMadeLater([](Metrics& metrics) { metrics.SetDevice(0, true, 3); }, "maxsim_device_lanes_busy{device=\"0\"} 3");
}

TEST(MetricsMemoryTest, OfCollections) {
  const auto set = [](Metrics& metrics) {
    for (const char* const storage : {"f16", "f32"}) {
      Metrics::CollectionGauges gauges;
      gauges.storage = storage;
      gauges.num_unavailable = 7;
      metrics.SetCollection("a collection with a long name", gauges);
    }
  };
  ExpectMadeLater(set, "maxsim_collection_unavailable_documents{collection=\"a collection with a long name\"} 7");
  const auto load = [](Metrics& metrics) { metrics.CountReload("c", false, absl::ZeroDuration()); };
  ExpectMadeLater(load, "maxsim_collection_loads_total{collection=\"c\",result=\"error\"} ");
}

TEST(MetricsMemoryTest, OfLiveCollections) {
  const auto count = [](Metrics& metrics) {
    metrics.live().CountLossyTokens("c", 1, 0);
    metrics.live().ObservePublish("c", absl::ZeroDuration());
    metrics.live().Set("c", {});
  };
  ExpectMadeLater(count, "maxsim_live_lossy_tokens_total{collection=\"c\",kind=\"zeroed\"} ");
}

}  // namespace
}  // namespace maxsim
