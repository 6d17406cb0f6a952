#include "server/http/stats_json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "maxsim_version.h"
#include "nlohmann/json.hpp"
#include "server/service/call/status.h"

namespace maxsim::http {
namespace {

using nlohmann::json;

// Charts show no more than three decimals, and fewer digits keep the text short.
double Rounded(double value) { return std::round(value * 1000) / 1000; }

json OrNull(const std::optional<double>& value) { return value.has_value() ? json(Rounded(*value)) : json(); }

// Makes a column of the values that `value` returns for the samples.
template <typename Value>
json Column(const std::vector<ActivitySample>& samples, Value value) {
  json column = json::array();
  for (const ActivitySample& sample : samples) column.push_back(value(sample));
  return column;
}

// Makes a column of counts per second. If all are zero, returns null unless `even_if_zero` is set.
template <typename Count>
json RateColumn(const std::vector<ActivitySample>& samples, bool even_if_zero, Count count) {
  if (!even_if_zero &&
      std::all_of(samples.begin(), samples.end(), [&](const ActivitySample& sample) { return count(sample) == 0; })) {
    return nullptr;
  }
  return Column(samples, [&](const ActivitySample& sample) {
    return sample.seconds > 0 ? Rounded(static_cast<double>(count(sample)) / sample.seconds) : 0.0;
  });
}

json HitRatio(const ActivitySample& sample) {
  const double lookups = static_cast<double>(sample.encoder_cache_hits) + sample.encoder_cache_misses;
  return lookups > 0 ? json(Rounded(sample.encoder_cache_hits / lookups)) : json();
}

json DeviceJson(const ActivityTotals::Device& device, const std::vector<ActivitySample>& samples) {
  json entry = {
      {"number", device.number}, {"backend", device.backend},           {"name", device.name},
      {"up", device.up},         {"memory_bytes", device.memory_bytes}, {"collection_bytes", device.collection_bytes}};
  if (device.free_bytes.has_value()) entry["free_bytes"] = *device.free_bytes;
  if (device.budget_bytes > 0) entry["budget_bytes"] = device.budget_bytes;
  entry["busy"] = Column(samples, [&](const ActivitySample& sample) {
    for (const ActivitySample::Device& one : sample.devices) {
      if (one.number == device.number) return json(Rounded(one.busy));
    }
    return json();
  });
  return entry;
}

}  // namespace

std::string FormatStats(const Activity::History& history, absl::Time now) {
  const std::vector<ActivitySample>& samples = history.samples;
  json requests = json::object();
  for (size_t code = 0; code < kNumStatusCodes; ++code) {
    json column = RateColumn(samples, /*even_if_zero=*/code == 0,
                             [&](const ActivitySample& sample) { return sample.answers[code]; });
    if (!column.is_null()) {
      requests[service::CodeName(static_cast<absl::StatusCode>(code))] = std::move(column);
    }
  }
  json rejections = json::object();
  for (size_t reason = 0; reason < kNumRejections; ++reason) {
    json column = RateColumn(samples, /*even_if_zero=*/false,
                             [&](const ActivitySample& sample) { return sample.rejections[reason]; });
    if (!column.is_null()) rejections[std::string(Name(static_cast<Rejection>(reason)))] = std::move(column);
  }
  json writes = json::object();
  for (size_t outcome = 0; outcome < kNumWriteOutcomes; ++outcome) {
    json column = RateColumn(samples, /*even_if_zero=*/false,
                             [&](const ActivitySample& sample) { return sample.writes[outcome]; });
    if (!column.is_null()) writes[std::string(Name(static_cast<WriteOutcome>(outcome)))] = std::move(column);
  }
  json devices = json::array();
  for (const ActivityTotals::Device& device : history.devices) devices.push_back(DeviceJson(device, samples));
  const json stats = {
      {"version", kVersion},
      {"commit", kCommit},
      {"interval_s", absl::ToInt64Seconds(Activity::kInterval)},
      {"age_s", history.end == absl::InfinitePast() ? json() : json(Rounded(absl::ToDoubleSeconds(now - history.end)))},
      {"seconds", Column(samples, [](const ActivitySample& sample) { return Rounded(sample.seconds); })},
      {"requests", std::move(requests)},
      {"rejections", std::move(rejections)},
      {"p50_us", Column(samples, [](const ActivitySample& sample) { return OrNull(sample.p50_us); })},
      {"p99_us", Column(samples, [](const ActivitySample& sample) { return OrNull(sample.p99_us); })},
      {"batch_queries",
       Column(samples, [](const ActivitySample& sample) { return OrNull(sample.mean_batch_queries); })},
      {"queue_jobs", Column(samples, [](const ActivitySample& sample) { return sample.queue_jobs; })},
      {"encoder_calls",
       RateColumn(samples, /*even_if_zero=*/true, [](const ActivitySample& sample) { return sample.encoder_calls; })},
      {"encoder_cache_hit_ratio", Column(samples, HitRatio)},
      {"writes", std::move(writes)},
      {"write_p50_us", Column(samples, [](const ActivitySample& sample) { return OrNull(sample.write_p50_us); })},
      {"write_p99_us", Column(samples, [](const ActivitySample& sample) { return OrNull(sample.write_p99_us); })},
      {"devices", std::move(devices)}};
  return stats.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace maxsim::http
