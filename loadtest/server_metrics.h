// The server's own metrics over a run: /metrics in Prometheus' text format, once a second.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace maxsim::loadtest {

// All series of one scrape. A name's value is the sum over its series.
class Scrape {
 public:
  // Lines that are no samples are skipped: the format is an open one.
  explicit Scrape(std::string_view text);

  std::optional<double> Sum(const std::string& name) const;
  std::optional<double> Mean(const std::string& name) const;  // over its series
  // Returns the series with this label, "reason=\"queue_full\"".
  std::optional<double> WithLabel(const std::string& name, std::string_view label) const;
  // Is there a series whose name begins so?
  bool HasAny(std::string_view prefix) const;

 private:
  struct Series {
    std::string labels;
    double value;
  };
  std::map<std::string, std::vector<Series>, std::less<>> series_;
};

// What a second of a run looked like from the server. Absent: the server has no such metric.
struct ServerSecond {
  double at_s = 0;     // from the begin of the measured part, at the scrape
  double seconds = 0;  // since the scrape before; rates are over these
  std::optional<double> queue_jobs, queue_token_pairs, in_flight_jobs;  // now
  std::optional<double> batches_per_second, batch_queries_mean;
  std::optional<double> queue_seconds_mean;
  std::optional<double> kernel_seconds, copy_seconds;  // in batches, per second
  std::optional<double> scored_bytes_per_second;
  std::optional<double> requests_per_second, queue_full_per_second;
  std::optional<double> gpu_utilization, gpu_power_watts;  // mean over GPUs; their sum
  std::optional<double> cpu_seconds, resident_bytes;       // of the server's process, per second; now
};
ServerSecond Compare(const Scrape& before, const Scrape& now, double at_s, double seconds);

// Scrapes on a thread of its own, so that a slow server delays no one.
class MetricsScraper {
 public:
  // Scrapes once, to see that it can, and keeps nothing of it. INVALID_ARGUMENT for a URL that is not
  // http://HOST[:PORT][/PATH]; UNAVAILABLE when nothing answers, FAILED_PRECONDITION when it is not 200, or a page
  // without any of maxsimd's metrics.
  static absl::StatusOr<std::unique_ptr<MetricsScraper>> Create(const std::string& url);
  ~MetricsScraper();

  // A run begins: waits for a scrape of now, and the next one is compared with that. Where it fails, the next one is
  // what those after it are compared with, and leaves no second.
  void Begin();

  // Asks for a scrape, soon; one that is asked for while the last is under way is left out.
  void Request(double at_s);

  // Waits for the scrape under way, and returns those since the last call. `failures` are scrapes that got no answer.
  std::vector<ServerSecond> Collect(int& failures);

 private:
  MetricsScraper(std::string origin, std::string path) : origin_(std::move(origin)), path_(std::move(path)) {}
  absl::StatusOr<Scrape> Get() const;
  void Loop();

  const std::string origin_, path_;
  absl::Mutex mutex_;
  std::optional<double> wanted_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<ServerSecond> seconds_ ABSL_GUARDED_BY(mutex_);
  std::optional<Scrape> before_ ABSL_GUARDED_BY(mutex_);
  int64_t before_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace maxsim::loadtest
