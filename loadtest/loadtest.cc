#include "loadtest/loadtest.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "client/call_queue.h"
#include "client/client.h"
#include "loadtest/command_line.h"
#include "loadtest/report/report.h"
#include "loadtest/run/first_request.h"
#include "loadtest/run/run.h"
#include "loadtest/run/server_metrics.h"
#include "loadtest/run/sweep.h"
#include "loadtest/run/workload.h"
#include "tools/command_line/terminal.h"
#include "tools/command_line/tls_flags.h"
#include "tools/command_line/token_file.h"

namespace maxsim::loadtest {
namespace {

using client::CallQueue;
using command_line::WithoutControls;

absl::Status WriteFile(const char* flag, const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush())
    return absl::UnavailableError(absl::StrCat(flag, ": cannot write '", path, "'"));
  return absl::OkStatus();
}

// Checks before the measurement, as far as possible, that a file can be written after it.
absl::Status CheckWritable(const char* flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  const bool exists = !error && std::filesystem::exists(whole, error);
  const std::filesystem::path written = exists ? whole : whole.parent_path();
  const bool is_folder = std::filesystem::is_directory(written, error);
  if (is_folder == !exists && access(written.c_str(), W_OK) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(flag, ": cannot write '", path, "'"));
}

std::string DescribeServer(const v1::GetInfoResponse& info) {
  std::string text;
  if (!info.version().empty()) text = absl::StrCat("maxsimd ", info.version(), " (", info.commit(), ")");
  for (const v1::DeviceInfo& device : info.devices()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", device.backend(), " ", device.name(), " ", device.isa());
  }
  return text;
}

class Session {
 public:
  Session(Options options, const Environment& environment) : options_(std::move(options)), environment_(environment) {}

  absl::Status Run() {
    report_.options = &options_;
    report_.started = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
    for (const absl::Status& status :
         {CheckWritable("--json", options_.output.json_file), CheckWritable("--html", options_.output.html_file)}) {
      if (!status.ok()) return status;
    }
    if (absl::Status status = Connect(); !status.ok()) return status;
    if (absl::Status status = Prepare(); !status.ok()) return status;
    if (absl::Status status = AskOnce(); !status.ok()) return status;
    absl::Status measured = options_.load.mode == Mode::kSweep ? Sweep() : Once();
    if (!measured.ok()) return measured;
    return Write();
  }

  int exit_code() const {
    if (report_.failed()) return kExitFailed;
    return report_.client_bound() ? kExitClientBound : kExitOk;
  }

 private:
  absl::Status Connect() {
    if (!options_.token_file.empty()) {
      absl::StatusOr<std::string> token = command_line::ReadTokenFile(options_.token_file);
      if (!token.ok()) return token.status();
      options_.client.bearer_token = *std::move(token);
    }
    absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> channels = client::MakeChannels(options_.client);
    if (!channels.ok()) return command_line::NameTlsFlag(channels.status());
    channels_ = *std::move(channels);
    client::ClientOptions one = options_.client;
    one.num_channels = 1;
    absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(one);
    if (!client.ok()) return command_line::NameTlsFlag(client.status());
    absl::StatusOr<v1::GetInfoResponse> info = (*client)->GetInfo();
    if (!info.ok()) return Prefix(absl::StrCat("--target ", one.target, ": GetInfo: "), info.status());
    info_ = *std::move(info);
    report_.server = DescribeServer(info_);
    if (options_.output.metrics_url.empty()) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<MetricsScraper>> scraper =
        MetricsScraper::Create(options_.output.metrics_url, options_.client.tls.ca_file);
    if (!scraper.ok()) return scraper.status();
    scraper_ = *std::move(scraper);
    return absl::OkStatus();
  }

  absl::Status Prepare() {
    absl::Time next_line = MonotonicNow() + absl::Seconds(1);
    const auto should_continue = [&](size_t num_prepared) {
      if (!options_.output.quiet && MonotonicNow() >= next_line) {
        environment_.err << "preparing requests: " << num_prepared << " so far, " << options_.workload.pool_requests
                         << " at most\n"
                         << std::flush;
        next_line = MonotonicNow() + absl::Seconds(1);
      }
      return !environment_.stop;
    };
    absl::StatusOr<std::unique_ptr<Workload>> workload = Workload::Prepare(options_.workload, info_, should_continue);
    if (!workload.ok()) return workload.status();
    workload_ = *std::move(workload);
    report_.workload = workload_->description();
    report_.num_candidates = workload_->num_candidates();
    report_.pool_requests = workload_->size();
    if (!options_.output.quiet) {
      environment_.err << absl::StrFormat("prepared %d requests (%s): %s\n", workload_->size(),
                                          FormatBytes(static_cast<int64_t>(workload_->total_bytes())),
                                          WithoutControls(workload_->description()));
    }
    return absl::OkStatus();
  }

  // Makes the queue of a thread. The queue gets every threads-th channel or, if there are fewer channels than threads,
  // one channel that it shares with other threads.
  std::unique_ptr<CallQueue> MakeQueue(int thread) const {
    std::vector<std::shared_ptr<grpc::Channel>> own;
    const auto threads = static_cast<size_t>(options_.load.threads);
    for (auto i = static_cast<size_t>(thread); i < channels_.size(); i += threads) own.push_back(channels_[i]);
    if (own.empty()) own.push_back(channels_[static_cast<size_t>(thread) % channels_.size()]);
    return options_.load.stream ? client::MakeSessionQueue(own, options_.client)
                                : client::MakeCallQueue(own, options_.client);
  }

  absl::Status AskOnce() {
    const auto on_busy = [this](const absl::Status& status) {
      if (options_.output.quiet) return;
      environment_.err << "the server is busy, trying the first request again: "
                       << WithoutControls(std::string(status.message())) << '\n'
                       << std::flush;
    };
    const std::unique_ptr<CallQueue> queue = MakeQueue(0);
    const FirstRequestResult first =
        SendFirstRequest({.timeout = options_.load.timeout}, (*workload_)[0], *queue, on_busy, environment_.stop);
    if (!first.status.ok()) return Prefix("the first request, before the measurement: ", first.status);
    report_.whole.sent += first.sent;
    report_.whole.rejected += first.rejected;
    ++report_.whole.answered;
    return absl::OkStatus();
  }

  absl::StatusOr<RunResult> RunAt(const LoadOptions& load) {
    const Observer observe = [this](const Interval& interval) {
      if (scraper_ != nullptr) scraper_->Request(interval.end_s);
      if (!options_.output.quiet) PrintProgress(interval);
    };
    if (scraper_ != nullptr) scraper_->Begin();
    absl::StatusOr<RunResult> result = RunLoad(
        load, *workload_, [this](int thread) { return MakeQueue(thread); }, observe, environment_.stop);
    if (scraper_ != nullptr) {
      report_.scrape_failures = 0;
      report_.server_metrics = scraper_->Collect(report_.scrape_failures);
      // The scrape at the end of the warm-up is only the base with which the first measured second was compared. The
      // ServerSecond that it ends belongs to the warm-up and is removed.
      std::erase_if(report_.server_metrics, [](const ServerSecond& second) { return second.at_s <= 0; });
    }
    if (!result.ok()) return result;
    report_.whole.sent += result->all_sent;
    report_.whole.answered += result->all_answered;
    report_.whole.rejected += result->all_rejected;
    report_.whole.errors += result->all_errors;
    report_.whole.wrong += result->all_wrong;
    return result;
  }

  void PrintProgress(const Interval& interval) const {
    std::string line = interval.warmup ? absl::StrFormat("%6s", "warm") : absl::StrFormat("%5.0fs", interval.end_s);
    absl::StrAppendFormat(&line, "  %10.1f/s", interval.rps);
    if (!interval.warmup) {
      absl::StrAppendFormat(&line, "  p50 %8s  p99 %8s", FormatUs(interval.p50_us), FormatUs(interval.p99_us));
    }
    absl::StrAppendFormat(&line, "  rejected %d  in flight %d", interval.rejected, interval.in_flight);
    if (interval.errors > 0) absl::StrAppend(&line, "  errors ", interval.errors);
    environment_.err << line << '\n' << std::flush;
  }

  absl::Status Once() {
    absl::StatusOr<RunResult> result = RunAt(options_.load);
    if (!result.ok()) return result.status();
    report_.result = *std::move(result);
    return absl::OkStatus();
  }

  absl::Status Sweep() {
    std::vector<std::vector<ServerSecond>> metrics;  // by sweep step
    const auto measure = [&](double rate) -> absl::StatusOr<RunResult> {
      LoadOptions load = options_.load;
      load.rate = rate;
      if (!options_.output.quiet) environment_.err << absl::StrFormat("%.1f requests/s:\n", rate) << std::flush;
      absl::StatusOr<RunResult> result = RunAt(load);
      if (result.ok()) metrics.push_back(report_.server_metrics);
      // A run that was stopped early does not show whether its rate holds.
      if (result.ok() && environment_.stop) return absl::CancelledError("the sweep was stopped");
      return result;
    };
    const auto on_step = [this](const SweepStep& step) {
      environment_.err << absl::StrFormat("%.1f requests/s: %s (p50 %s, p99 %s)\n", step.rate,
                                          step.held ? "held" : step.reason,
                                          FormatUs(static_cast<double>(step.result.latency.PercentileNs(0.5)) * 1e-3),
                                          FormatUs(static_cast<double>(step.result.latency.PercentileNs(0.99)) * 1e-3))
                       << std::flush;
    };
    absl::StatusOr<SweepResult> sweep = FindHighestRate({.first_rate = options_.load.rate,
                                                         .target_p99 = options_.load.target_p99,
                                                         .precision = options_.load.sweep_precision},
                                                        measure, on_step);
    if (!sweep.ok()) return sweep.status();
    const size_t shown = sweep->best >= 0 ? static_cast<size_t>(sweep->best) : sweep->steps.size() - 1;
    report_.result = sweep->steps[shown].result;
    report_.server_metrics = metrics[shown];
    report_.sweep = *std::move(sweep);
    return absl::OkStatus();
  }

  absl::Status Write() const {
    PrintReport(report_, environment_.out);
    if (!environment_.out) return absl::UnavailableError("cannot write the report to standard output");
    const OutputOptions& output = options_.output;
    if (!output.json_file.empty()) {
      const std::string json = ToJson(report_).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
      if (absl::Status status = WriteFile("--json", output.json_file, json + "\n"); !status.ok()) return status;
    }
    return output.html_file.empty() ? absl::OkStatus() : WriteFile("--html", output.html_file, ToHtml(report_));
  }

  Options options_;
  const Environment& environment_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  v1::GetInfoResponse info_;
  std::unique_ptr<MetricsScraper> scraper_;
  std::unique_ptr<Workload> workload_;
  Report report_;
};

}  // namespace

int RunLoadtest(const std::vector<std::string>& arguments, const Environment& environment) {
  int exit_code = kExitOk;
  std::optional<Options> options = ParseCommandLine(arguments, environment.out, environment.err, exit_code);
  if (!options.has_value()) return exit_code;
  Session session(*std::move(options), environment);
  const absl::Status status = session.Run();
  if (!status.ok()) {
    environment.err << "maxsim-loadtest: " << WithoutControls(absl::StatusCodeToString(status.code())) << ": "
                    << WithoutControls(std::string(status.message())) << '\n';
    return kExitFailed;
  }
  return session.exit_code();
}

}  // namespace maxsim::loadtest
