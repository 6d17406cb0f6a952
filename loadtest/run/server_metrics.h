// The server's own metrics over a run, read once per second from /metrics in Prometheus' text format.
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

// All series of one scrape. Immutable.
class Scrape {
 public:
  // Parses the text of /metrics. Skips lines that are not samples, since the format may be extended.
  explicit Scrape(std::string_view text);

  // Sum and Mean return the sum and the mean over the series with this name; nullopt if there are none.
  std::optional<double> Sum(const std::string& name) const;
  std::optional<double> Mean(const std::string& name) const;
  // Returns the value of the series that has a label such as "reason=\"queue_full\""; nullopt if there is none.
  std::optional<double> WithLabel(const std::string& name, std::string_view label) const;
  // Returns true when there is a series whose name begins with `prefix`.
  bool HasAny(std::string_view prefix) const;

 private:
  struct Series {
    std::string labels;
    double value;
  };
  std::map<std::string, std::vector<Series>, std::less<>> series_;
};

// The server's metrics over a second of a run. A member is nullopt if the server has no such metric.
struct ServerSecond {
  double at_s = 0;     // time of the scrape, in seconds from the begin of the measured part
  double seconds = 0;  // time since the previous scrape, for computing rates
  std::optional<double> queue_jobs, queue_token_pairs, in_flight_jobs;  // at the scrape
  std::optional<double> batches_per_second, batch_queries_mean;
  std::optional<double> queue_seconds_mean;
  std::optional<double> kernel_seconds, copy_seconds;  // times of batches, per second
  std::optional<double> scored_bytes_per_second;
  std::optional<double> requests_per_second, queue_full_per_second;
  std::optional<double> gpu_utilization;  // mean over GPUs
  std::optional<double> gpu_power_watts;  // sum over GPUs
  std::optional<double> cpu_seconds;      // processor time of the server's process, per second
  std::optional<double> resident_bytes;   // memory of the server's process at the scrape
};

// Returns the metrics of the time between two scrapes that are `seconds` apart.
ServerSecond Compare(const Scrape& before, const Scrape& now, double at_s, double seconds);

// Scrapes on its own thread, so that a slow server does not delay the run. Its functions must all be called from one
// thread.
class MetricsScraper {
 public:
  // Scrapes once as a trial, whose result is not kept. Returns INVALID_ARGUMENT for a URL that is not
  // http[s]://HOST[:PORT][/PATH], UNAVAILABLE if nothing answers, and FAILED_PRECONDITION if the answer is not 200 or
  // has none of maxsimd's metrics. For https, the server's certificate must be signed by an authority in `ca_file`, or
  // by one of the system's if that is empty.
  static absl::StatusOr<std::unique_ptr<MetricsScraper>> Create(const std::string& url,
                                                                const std::string& ca_file = "");
  ~MetricsScraper();

  // Begins a run: scrapes, and waits for the result. Each ServerSecond compares a scrape with the previous one. If this
  // first scrape fails, the next one takes its place, and so makes no ServerSecond.
  void Begin();

  // Requests a scrape, and returns without waiting. Does nothing if a scrape is in progress.
  void Request(double at_s);

  // Waits for the scrape in progress, and returns the ServerSeconds since the last call of Collect. Sets `failures` to
  // the number of failed scrapes.
  std::vector<ServerSecond> Collect(int& failures);

 private:
  MetricsScraper(std::string origin, std::string path, std::string ca_file)
      : origin_(std::move(origin)), path_(std::move(path)), ca_file_(std::move(ca_file)) {}
  absl::StatusOr<Scrape> Get() const;
  void Loop();

  const std::string origin_, path_, ca_file_;
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
