#include "loadtest/run/server_metrics.h"

#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/lines.h"
#include "httplib.h"
#include "loadtest/run/worker.h"

namespace maxsim::loadtest {
namespace {

// The time-out must be less than a second, because a scrape begins every second.
constexpr std::chrono::milliseconds kScrapeTimeout{800};

// Returns how much a counter has grown between two scrapes. If it is smaller than before, the server has restarted in
// between and the counter began again at 0.
std::optional<double> Grown(const Scrape& before, const Scrape& now, const std::string& name) {
  const std::optional<double> later = now.Sum(name);
  if (!later.has_value()) return std::nullopt;
  const double earlier = before.Sum(name).value_or(0);
  return *later >= earlier ? *later - earlier : *later;
}

std::optional<double> Per(std::optional<double> value, std::optional<double> divisor) {
  if (!value.has_value() || !divisor.has_value() || *divisor <= 0) return std::nullopt;
  return *value / *divisor;
}

}  // namespace

Scrape::Scrape(std::string_view text) {
  ForEachLine(text, [&](int64_t, std::string_view line) {
    line = Trim(line);
    if (line.front() == '#') return absl::OkStatus();
    // A line is NAME{LABELS} VALUE [TIMESTAMP], where a label's value may hold blanks and braces.
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) return absl::OkStatus();
    size_t value_begin = name_end;
    std::string_view labels;
    if (line[name_end] == '{') {
      const size_t close = line.rfind('}');
      if (close == std::string_view::npos) return absl::OkStatus();
      labels = line.substr(name_end + 1, close - name_end - 1);
      value_begin = close + 1;
    }
    std::string_view rest = Trim(line.substr(value_begin));
    rest = rest.substr(0, rest.find(' '));
    double value = 0;
    if (absl::SimpleAtod(absl::string_view(rest.data(), rest.size()), &value)) {
      series_[std::string(line.substr(0, name_end))].push_back({std::string(labels), value});
    }
    return absl::OkStatus();
  }).IgnoreError();
}

std::optional<double> Scrape::Sum(const std::string& name) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  double sum = 0;
  for (const Series& series : found->second) sum += series.value;
  return sum;
}

std::optional<double> Scrape::Mean(const std::string& name) const {
  const std::optional<double> sum = Sum(name);
  if (!sum.has_value()) return std::nullopt;
  return *sum / static_cast<double>(series_.at(name).size());
}

std::optional<double> Scrape::WithLabel(const std::string& name, std::string_view label) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  for (const Series& series : found->second) {
    if (series.labels.find(label) != std::string::npos) return series.value;
  }
  return std::nullopt;
}

bool Scrape::HasAny(std::string_view prefix) const {
  const auto found = series_.lower_bound(prefix);
  return found != series_.end() && found->first.starts_with(prefix);
}

ServerSecond Compare(const Scrape& before, const Scrape& now, double at_s, double seconds) {
  const auto per_second = [&](const std::string& name) { return Per(Grown(before, now, name), seconds); };
  ServerSecond second;
  second.at_s = at_s;
  second.seconds = seconds;
  second.queue_jobs = now.Sum("maxsim_queue_jobs");
  second.queue_token_pairs = now.Sum("maxsim_queue_token_pairs");
  second.in_flight_jobs = now.Sum("maxsim_in_flight_jobs");
  second.batches_per_second = per_second("maxsim_batch_queries_count");
  second.batch_queries_mean =
      Per(Grown(before, now, "maxsim_batch_queries_sum"), Grown(before, now, "maxsim_batch_queries_count"));
  second.queue_seconds_mean = Per(Grown(before, now, "maxsim_queue_duration_seconds_sum"),
                                  Grown(before, now, "maxsim_queue_duration_seconds_count"));
  second.kernel_seconds = per_second("maxsim_batch_kernel_duration_seconds_sum");
  second.copy_seconds = per_second("maxsim_batch_copy_duration_seconds_sum");
  second.scored_bytes_per_second = per_second("maxsim_scored_document_bytes_total");
  second.requests_per_second = per_second("maxsim_requests_total");
  // Adds up the refusals for all three reasons for which the queue refuses a request, because clients get
  // RESOURCE_EXHAUSTED for each of them.
  for (const std::string_view reason : {"reason=\"queue_full\"", "reason=\"queue_time\"", "reason=\"displaced\""}) {
    const std::optional<double> refused = now.WithLabel("maxsim_rejections_total", reason);
    if (!refused.has_value()) continue;
    const double earlier = before.WithLabel("maxsim_rejections_total", reason).value_or(0);
    second.queue_full_per_second =
        second.queue_full_per_second.value_or(0) + Per(std::max(0.0, *refused - earlier), seconds).value_or(0);
  }
  second.gpu_utilization = now.Mean("maxsim_gpu_utilization_ratio");
  second.gpu_power_watts = now.Sum("maxsim_gpu_power_watts");
  second.cpu_seconds = per_second("process_cpu_seconds_total");
  second.resident_bytes = now.Sum("process_resident_memory_bytes");
  return second;
}

absl::StatusOr<std::unique_ptr<MetricsScraper>> MetricsScraper::Create(const std::string& url,
                                                                       const std::string& ca_file) {
  const std::string_view scheme = std::string_view(url).starts_with("https://") ? "https://" : "http://";
  const size_t slash = url.find('/', scheme.size());
  std::string origin = url.substr(0, slash);
  if (!std::string_view(url).starts_with(scheme) || origin.size() == scheme.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics: \"", url, "\" is not http[s]://HOST[:PORT][/PATH]"));
  }
  std::string path = slash == std::string::npos ? "/metrics" : url.substr(slash);
  std::unique_ptr<MetricsScraper> scraper(new MetricsScraper(std::move(origin), std::move(path), ca_file));
  absl::StatusOr<Scrape> first = scraper->Get();
  if (!first.ok()) return first.status();
  if (!first->HasAny("maxsim_")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--metrics: ", url, " answers, but shows none of maxsimd's metrics; they are at /metrics of its HTTP port"));
  }
  scraper->thread_ = std::thread([scraper = scraper.get()] { scraper->Loop(); });
  return scraper;
}

MetricsScraper::~MetricsScraper() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<Scrape> MetricsScraper::Get() const {
  httplib::Client client(origin_);
  client.set_connection_timeout(kScrapeTimeout);
  client.set_read_timeout(kScrapeTimeout);
  if (!ca_file_.empty()) client.set_ca_cert_path(ca_file_.c_str());
  const httplib::Result result = client.Get(path_.c_str());
  if (!result) return absl::UnavailableError(absl::StrCat("--metrics: nothing answers at ", origin_, path_));
  if (result->status != 200) {
    return absl::FailedPreconditionError(absl::StrCat("--metrics: ", origin_, path_, " answers ", result->status));
  }
  return Scrape(result->body);
}

void MetricsScraper::Begin() {
  const auto idle = [this] {
    mutex_.AssertHeld();
    return !busy_ && !wanted_.has_value();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
  // The lock is held during the scrape. That delays no other thread: the scraping thread waits for this run's first
  // Request anyway.
  absl::StatusOr<Scrape> scrape = Get();
  before_.reset();
  if (!scrape.ok()) {
    ++failures_;
    return;
  }
  before_ = *std::move(scrape);
  before_ns_ = NowNs();
}

void MetricsScraper::Request(double at_s) {
  absl::MutexLock lock(&mutex_);
  if (!busy_) wanted_ = at_s;
}

void MetricsScraper::Loop() {
  const auto work_or_stop = [this] {
    mutex_.AssertHeld();
    return stop_ || wanted_.has_value();
  };
  while (true) {
    double at_s = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&work_or_stop));
      if (stop_) return;
      at_s = *wanted_;
      wanted_.reset();
      busy_ = true;
    }
    absl::StatusOr<Scrape> scrape = Get();
    const int64_t now_ns = NowNs();
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    if (!scrape.ok()) {
      ++failures_;
      continue;
    }
    if (before_.has_value()) {
      seconds_.push_back(Compare(*before_, *scrape, at_s, static_cast<double>(now_ns - before_ns_) * 1e-9));
    }
    before_ = *std::move(scrape);
    before_ns_ = now_ns;
  }
}

std::vector<ServerSecond> MetricsScraper::Collect(int& failures) {
  const auto idle = [this] {
    mutex_.AssertHeld();
    return !busy_ && !wanted_.has_value();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
  failures = std::exchange(failures_, 0);
  return std::exchange(seconds_, {});
}

}  // namespace maxsim::loadtest
