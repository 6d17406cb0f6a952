#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadtest/report/chart.h"
#include "loadtest/report/report.h"

namespace maxsim::loadtest {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60666d; --grid: #e3e6e9; --page: #fff; --warn: #a33b00;
  --c0: #2463b4; --c1: #c2571a; --c2: #2f7d4f; --c3: #7a4b9a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #9aa2aa; --grid: #32383e; --page: #15181b;
  --warn: #ff9a62; --c0: #78a9ea; --c1: #f0a070; --c2: #7cc79a; --c3: #bd95dc; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto;
  max-width: 1360px; padding: 0 1.5rem; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .warn { color: var(--warn); font-weight: 600; }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--grid); font-weight: 400; }
th { color: var(--soft); } th:first-child, td:first-child, td.text { text-align: left; }
.figures { display: flex; flex-wrap: wrap; gap: .4rem 2.5rem; margin: 1rem 0; }
.figures div { min-width: 7rem; } .figures b { display: block; font-size: 1.4rem; font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; } figcaption span { color: var(--soft); font-weight: 400; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.right { text-anchor: end; } .middle { text-anchor: middle; } .grid { stroke: var(--grid); } .axis { stroke: var(--soft); }
.rule { stroke: var(--warn); stroke-dasharray: 5 4; } path { fill: none; stroke-width: 1.8; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
.dot { fill: var(--page); stroke-width: 1.8; } .legend { color: var(--soft); font-size: 13px; }
.key { display: inline-block; width: 1.1rem; height: 3px; vertical-align: middle; margin: 0 .35rem 0 .9rem; }
.k0 { background: var(--c0); } .k1 { background: var(--c1); } .k2 { background: var(--c2); } .k3 { background: var(--c3); }
)";

double QuantileUs(const Histogram& histogram, double quantile) {
  return static_cast<double>(histogram.PercentileNs(quantile)) * 1e-3;
}

std::string Figure(const std::string& name, const std::string& value) {
  return absl::StrCat("<div><b>", EscapeHtml(value), "</b><span class=\"soft\">", EscapeHtml(name), "</span></div>\n");
}

std::string Row(const std::vector<std::string>& cells, const char* tag) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) absl::StrAppend(&html, "<", tag, ">", EscapeHtml(cell), "</", tag, ">");
  return html + "</tr>\n";
}

std::string Head(const Report& report) {
  const RunResult& result = report.result;
  std::string html = absl::StrCat("<h1>", EscapeHtml(report.options->workload.collection), " on ",
                                  EscapeHtml(report.options->client.target), "</h1>\n<p>", EscapeHtml(report.workload),
                                  "; ", EscapeHtml(DescribeLoad(report)), "</p>\n");
  absl::StrAppend(&html, "<p class=\"soft\">", EscapeHtml(report.started),
                  report.server.empty() ? "" : absl::StrCat("; ", EscapeHtml(report.server)), "</p>\n<p><code>",
                  EscapeHtml(report.options->command), "</code></p>\n");
  if (report.client_bound()) {
    absl::StrAppend(
        &html, "<p class=\"warn\">The load tester was the bound: ", EscapeHtml(report.client_bound_reason()), "</p>\n");
  }
  if (!result.stability.stable) {
    absl::StrAppend(&html, "<p class=\"warn\">Not stable: ", EscapeHtml(result.stability.reason), "</p>\n");
  }
  if (report.sweep.has_value() && !report.sweep->converged) {
    absl::StrAppend(&html, "<p class=\"warn\">The sweep did not converge: ", EscapeHtml(report.sweep->converged_reason),
                    report.sweep->best < 0 ? "" : "; a higher rate may hold", "</p>\n");
  }
  absl::StrAppend(&html, "<div class=\"figures\">\n");
  if (report.sweep.has_value()) {
    absl::StrAppend(&html,
                    Figure(absl::StrCat("requests/s under p99 ", absl::FormatDuration(report.options->load.target_p99)),
                           report.sweep->best < 0 ? "none" : absl::StrFormat("%.0f", result.rate)));
  }
  return absl::StrCat(
      html, Figure("requests answered a second", absl::StrFormat("%.1f", result.rps())),
      Figure("queries a second", absl::StrFormat("%.1f", result.qps())),
      Figure("p50", FormatUs(QuantileUs(result.latency, 0.5))),
      Figure("p99", FormatUs(QuantileUs(result.latency, 0.99))),
      Figure("rejected", absl::StrCat(result.counts.rejected)), Figure("errors", absl::StrCat(result.counts.errors)),
      Figure("processor time of the load tester", absl::StrFormat("%.1f s", result.client_cpu_s)), "</div>\n");
}

std::string LatencyTable(const RunResult& result) {
  std::string html =
      "<h2>Latency</h2>\n<table>\n" + Row({"", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"}, "th");
  for (const auto& [name, histogram] :
       {std::pair{"as clients see it", &result.latency}, std::pair{"on the server", &result.server_total},
        std::pair{"queue", &result.server_queue}, std::pair{"copy", &result.copy},
        std::pair{"kernel", &result.kernel}}) {
    std::vector<std::string> cells = {name, FormatUs(histogram->MeanNs() * 1e-3)};
    for (const double quantile : {0.5, 0.9, 0.95, 0.99, 0.999})
      cells.push_back(FormatUs(QuantileUs(*histogram, quantile)));
    cells.push_back(FormatUs(static_cast<double>(histogram->max_ns()) * 1e-3));
    html += Row(cells, "td");
  }
  return html + "</table>\n";
}

std::string SweepSection(const Report& report) {
  std::vector<const SweepStep*> steps;
  for (const SweepStep& step : report.sweep->steps) steps.push_back(&step);
  std::sort(steps.begin(), steps.end(), [](const SweepStep* a, const SweepStep* b) { return a->rate < b->rate; });
  Chart chart{.title = "Latency by rate",
              .x_label = "requests a second, intended",
              .y_label = "ms",
              .lines = {},
              .log_y = true,
              .mark_points = true,
              .y_rule = absl::ToDoubleMilliseconds(report.options->load.target_p99),
              .x_ticks = {}};
  chart.lines = {{"p50", {}}, {"p99", {}}};
  std::string rows;
  for (const SweepStep* step : steps) {
    const double p50_us = QuantileUs(step->result.latency, 0.5), p99_us = QuantileUs(step->result.latency, 0.99);
    chart.lines[0].points.emplace_back(step->rate, p50_us * 1e-3);
    chart.lines[1].points.emplace_back(step->rate, p99_us * 1e-3);
    rows += Row({absl::StrFormat("%.1f", step->rate), absl::StrFormat("%.1f", step->result.rps()), FormatUs(p50_us),
                 FormatUs(p99_us), absl::StrCat(step->result.counts.rejected), LateSends(step->result), Verdict(*step)},
                "td");
  }
  return absl::StrCat("<h2>Sweep</h2>\n<div class=\"charts\">\n", DrawChart(chart), "<table>\n",
                      Row({"rate", "answered a second", "p50", "p99", "rejected", "late sends", ""}, "th"), rows,
                      "</table>\n</div>\n");
}

// Draws latency over 1 / (1 - quantile), up to the quantile above which only one value of `latency` lies.
Chart PercentileChart(const Histogram& latency) {
  Chart chart{.title = "Percentiles",
              .x_label = "percentile",
              .y_label = "ms",
              .lines = {{"latency", {}}},
              .log_y = true,
              .mark_points = false,
              .y_rule = 0,
              .x_ticks = {}};
  const double nines = std::log10(static_cast<double>(std::max<int64_t>(latency.count(), 2)));
  for (int i = 0; i <= static_cast<int>(20 * nines); ++i) {
    const double x = 0.05 * i;
    chart.lines[0].points.emplace_back(x, QuantileUs(latency, 1 - std::pow(10, -x)) * 1e-3);
  }
  for (const auto& [x, text] : {std::pair{0.30103, "50"}, std::pair{1.0, "90"}, std::pair{2.0, "99"},
                                std::pair{3.0, "99.9"}, std::pair{4.0, "99.99"}, std::pair{5.0, "99.999"}}) {
    if (x <= nines) chart.x_ticks.emplace_back(x, text);
  }
  return chart;
}

Chart OverTime(const std::string& title, const std::string& unit, const std::vector<std::string>& names) {
  Chart chart{.title = title,
              .x_label = "seconds",
              .y_label = unit,
              .lines = {},
              .log_y = false,
              .mark_points = false,
              .y_rule = 0,
              .x_ticks = {}};
  for (const std::string& name : names) chart.lines.push_back({name, {}});
  return chart;
}

std::string ClientCharts(const RunResult& result) {
  Chart latency = OverTime("Latency", "ms", {"p50", "p99"});
  Chart rate = OverTime("Requests", "a second", {"answered", "rejected"});
  Chart in_flight = OverTime("Under way", "requests", {"requests"});
  for (const Interval& interval : result.series) {
    latency.lines[0].points.emplace_back(interval.end_s, interval.p50_us * 1e-3);
    latency.lines[1].points.emplace_back(interval.end_s, interval.p99_us * 1e-3);
    rate.lines[0].points.emplace_back(interval.end_s, interval.rps);
    rate.lines[1].points.emplace_back(
        interval.end_s, static_cast<double>(interval.rejected) / std::max(interval.end_s - interval.begin_s, 1e-9));
    in_flight.lines[0].points.emplace_back(interval.end_s, interval.in_flight);
  }
  return absl::StrCat("<h2>Over the run</h2>\n<div class=\"charts\">\n", DrawChart(PercentileChart(result.latency)),
                      DrawChart(latency), DrawChart(rate), DrawChart(in_flight), "</div>\n");
}

std::string ServerCharts(const std::vector<ServerSecond>& seconds) {
  Chart batches = OverTime("Batch size", "queries, mean", {"queries"});
  Chart queue = OverTime("Queue", "requests", {"waiting", "being scored"});
  Chart busy = OverTime("Busy", "share of a second", {"kernels", "copies", "GPU (NVML)"});
  Chart bytes = OverTime("Documents read", "GB/s", {"GB/s"});
  Chart full = OverTime("Rejected by the queue", "a second", {"rejected"});
  Chart cpu = OverTime("Processors of the server", "in use", {"processors"});
  for (const ServerSecond& second : seconds) {
    const auto add = [&second](Line& line, const std::optional<double>& value, double scale = 1) {
      if (value.has_value()) line.points.emplace_back(second.at_s, *value * scale);
    };
    add(batches.lines[0], second.batch_queries_mean);
    add(queue.lines[0], second.queue_jobs);
    add(queue.lines[1], second.in_flight_jobs);
    add(busy.lines[0], second.kernel_seconds);
    add(busy.lines[1], second.copy_seconds);
    add(busy.lines[2], second.gpu_utilization);
    add(bytes.lines[0], second.scored_bytes_per_second, 1e-9);
    add(full.lines[0], second.queue_full_per_second);
    add(cpu.lines[0], second.cpu_seconds);
  }
  return absl::StrCat("<h2>The server's metrics</h2>\n<div class=\"charts\">\n", DrawChart(batches), DrawChart(queue),
                      DrawChart(busy), DrawChart(bytes), DrawChart(full), DrawChart(cpu), "</div>\n");
}

}  // namespace

std::string ToHtml(const Report& report) {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>",
                      EscapeHtml(report.options->workload.collection), ": load test</title>\n<style>", kStyle,
                      "</style>\n</head>\n<body>\n", Head(report), report.sweep.has_value() ? SweepSection(report) : "",
                      LatencyTable(report.result), ClientCharts(report.result),
                      report.server_metrics.empty() ? "" : ServerCharts(report.server_metrics), "</body>\n</html>\n");
}

}  // namespace maxsim::loadtest
