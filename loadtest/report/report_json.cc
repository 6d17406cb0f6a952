#include "absl/status/status.h"
#include "loadtest/report/report.h"
#include "maxsim_version.h"

namespace maxsim::loadtest {
namespace {

using Json = nlohmann::ordered_json;

double ToUs(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kClosed:
      return "closed";
    case Mode::kOpen:
      return "open";
    case Mode::kSweep:
      return "sweep";
  }
  return "";
}

const char* KindName(CandidateKind kind) {
  switch (kind) {
    case CandidateKind::kIds:
      return "ids";
    case CandidateKind::kWholeCollection:
      return "all";
    case CandidateKind::kInline:
      return "inline";
  }
  return "";
}

Json LatencyJson(const Histogram& latency) {
  return {{"mean", latency.MeanNs() * 1e-3},
          {"p50", ToUs(latency.PercentileNs(0.5))},
          {"p90", ToUs(latency.PercentileNs(0.9))},
          {"p95", ToUs(latency.PercentileNs(0.95))},
          {"p99", ToUs(latency.PercentileNs(0.99))},
          {"p999", ToUs(latency.PercentileNs(0.999))},
          {"max", ToUs(latency.max_ns())}};
}

Json ServerTimesJson(const RunResult& result) {
  Json json = Json::object();
  for (const auto& [name, histogram] :
       {std::pair{"queue", &result.server_queue}, std::pair{"copy", &result.copy}, std::pair{"kernel", &result.kernel},
        std::pair{"total", &result.server_total}}) {
    json[std::string(name) + "_p50"] = ToUs(histogram->PercentileNs(0.5));
    json[std::string(name) + "_p99"] = ToUs(histogram->PercentileNs(0.99));
  }
  return json;
}

Json ErrorsJson(const RunResult& result) {
  Json json = Json::object();
  for (size_t code = 0; code < kNumCodes; ++code) {
    if (result.errors[code] > 0) json[CodeName(code)] = result.errors[code];
  }
  return json;
}

Json MessagesJson(const RunResult& result) {
  Json json = Json::object();
  for (size_t code = 0; code < kNumCodes; ++code) {
    // A server's message need not be UTF-8; dump() replaces bytes that are not.
    if (!result.first_error[code].empty()) json[CodeName(code)] = result.first_error[code];
  }
  return json;
}

Json IntervalJson(const Interval& interval) {
  return {{"second", interval.end_s},  {"rps", interval.rps},
          {"qps", interval.qps},       {"p50", interval.p50_us},
          {"p99", interval.p99_us},    {"rejected", interval.rejected},
          {"errors", interval.errors}, {"in_flight", interval.in_flight}};
}

Json StabilityJson(const Stability& stability) {
  Json thirds = Json::array();
  for (const Interval& third : stability.thirds) thirds.push_back({{"rps", third.rps}, {"p50", third.p50_us}});
  return {{"reason", stability.reason},
          {"rate_tolerance", stability.rate_tolerance},
          {"p50_tolerance", stability.p50_tolerance},
          {"thirds", std::move(thirds)}};
}

Json ServerSecondJson(const ServerSecond& second) {
  Json json = {{"second", second.at_s}};
  const auto add = [&json](const char* name, const std::optional<double>& value) {
    if (value.has_value()) json[name] = *value;
  };
  add("queue_jobs", second.queue_jobs);
  add("queue_token_pairs", second.queue_token_pairs);
  add("in_flight_jobs", second.in_flight_jobs);
  add("batches_per_second", second.batches_per_second);
  add("batch_queries_mean", second.batch_queries_mean);
  add("queue_seconds_mean", second.queue_seconds_mean);
  add("kernel_seconds", second.kernel_seconds);
  add("copy_seconds", second.copy_seconds);
  add("scored_bytes_per_second", second.scored_bytes_per_second);
  add("requests_per_second", second.requests_per_second);
  add("queue_full_per_second", second.queue_full_per_second);
  add("gpu_utilization", second.gpu_utilization);
  add("gpu_power_watts", second.gpu_power_watts);
  add("cpu_seconds", second.cpu_seconds);
  add("resident_bytes", second.resident_bytes);
  return json;
}

Json StepJson(const SweepStep& step) {
  const RunResult& result = step.result;
  return {{"rate", step.rate},
          {"held", step.held},
          {"reason", step.reason},
          {"rps", result.rps()},
          {"qps", result.qps()},
          {"latency_us", LatencyJson(result.latency)},
          {"rejected", result.counts.rejected},
          {"errors", ErrorsJson(result)},
          {"late_sends", result.counts.late},
          {"stable", result.stability.stable},
          {"client_cpu_s", result.client_cpu_s},
          {"client_bound", result.client_bound}};
}

// Returns the configured load.
Json LoadJson(const Report& report) {
  const Options& options = *report.options;
  const bool closed = options.load.mode == Mode::kClosed;
  return {{"version", kVersion},
          {"commit", kCommit},
          {"started", report.started},
          {"command", options.command},
          {"target", options.client.target},
          {"server", report.server},
          {"collection", options.workload.collection},
          {"workload", report.workload},
          {"mode", ModeName(options.load.mode)},
          {"stream", options.load.stream},
          {"concurrency", closed ? Json(options.load.concurrency) : Json()},
          {"rate", closed ? Json() : Json(report.result.rate)},
          {"arrivals", closed ? Json() : Json(options.load.arrivals == Arrivals::kPoisson ? "poisson" : "fixed")},
          {"threads", options.load.threads},
          {"channels", options.client.num_channels},
          {"queries_per_request", options.workload.queries_per_request},
          {"candidate_kind", KindName(options.workload.candidates)},
          {"candidates", report.num_candidates},
          {"top_k", options.workload.top_k},
          {"pool_requests", report.pool_requests}};
}

// Adds the results of the run to `json`.
void AddResult(const Report& report, Json& json) {
  const RunResult& result = report.result;
  const Counts& counts = result.counts;
  json["duration_s"] = result.duration_s;
  json["requests"] = counts.requests();
  json["queries"] = counts.queries;
  json["rps"] = result.rps();
  json["qps"] = result.qps();
  json["latency_us"] = LatencyJson(result.latency);
  json["server_us"] = ServerTimesJson(result);
  json["errors"] = ErrorsJson(result);
  json["error_messages"] = MessagesJson(result);
  json["rejected"] = counts.rejected;
  json["late_sends"] = counts.late;
  json["late_sends_at_in_flight_limit"] = counts.late_at_limit;
  json["unsent"] = counts.unsent;
  json["stable"] = result.stability.stable;
  json["stability"] = StabilityJson(result.stability);
  json["client_cpu_s"] = result.client_cpu_s;
  json["client_cpu_us_per_request"] =
      counts.requests() > 0 ? Json(result.client_cpu_s * 1e6 / static_cast<double>(counts.requests())) : Json();
  json["client_threads_busy"] = result.threads_busy;
  json["machine_busy"] = result.machine_busy < 0 ? Json() : Json(result.machine_busy);
  json["client_bound"] = report.client_bound();
  json["client_bound_reason"] = report.client_bound_reason();
  json["whole_run"] = {{"sent", report.whole.sent},
                       {"answered", report.whole.answered},
                       {"rejected", report.whole.rejected},
                       {"errors", report.whole.errors},
                       {"wrong", report.whole.wrong}};
}

}  // namespace

std::string CodeName(size_t code) { return absl::StatusCodeToString(static_cast<absl::StatusCode>(code)); }

Json ToJson(const Report& report) {
  Json json = LoadJson(report);
  AddResult(report, json);
  json["series"] = Json::array();
  for (const Interval& interval : report.result.series) json["series"].push_back(IntervalJson(interval));
  json["server_metrics"] = Json::array();
  for (const ServerSecond& second : report.server_metrics) json["server_metrics"].push_back(ServerSecondJson(second));
  json["scrape_failures"] = report.scrape_failures;
  json["steps"] = Json::array();
  if (report.sweep.has_value()) {
    const SweepResult& sweep = *report.sweep;
    json["target_p99_us"] = absl::ToDoubleMicroseconds(report.options->load.target_p99);
    json["held_rate"] = sweep.best < 0 ? Json() : Json(sweep.steps[static_cast<size_t>(sweep.best)].rate);
    json["converged"] = sweep.converged;
    json["converged_reason"] = sweep.converged_reason;
    for (const SweepStep& step : sweep.steps) json["steps"].push_back(StepJson(step));
  }
  return json;
}

}  // namespace maxsim::loadtest
