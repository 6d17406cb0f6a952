#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "loadtest/report/report.h"
#include "tools/command_line/terminal.h"

namespace maxsim::loadtest {
namespace {

using command_line::Align;
using command_line::Table;
using command_line::WithoutControls;

double HistogramUs(const Histogram& histogram, double quantile) {
  return static_cast<double>(histogram.PercentileNs(quantile)) * 1e-3;
}

void Fact(std::ostream& out, const std::string& name, const std::string& value) {
  out << absl::StrFormat("%-14s", name) << WithoutControls(value) << '\n';
}

void PrintLatencies(const RunResult& result, std::ostream& out) {
  Table table({{""},
               {"mean", Align::kRight},
               {"p50", Align::kRight},
               {"p90", Align::kRight},
               {"p99", Align::kRight},
               {"p99.9", Align::kRight},
               {"max", Align::kRight}});
  for (const auto& [name, histogram] :
       {std::pair{"latency", &result.latency}, std::pair{"on the server", &result.server_total},
        std::pair{"  queue", &result.server_queue}, std::pair{"  copy", &result.copy},
        std::pair{"  kernel", &result.kernel}}) {
    table.AddRow({name, FormatUs(histogram->MeanNs() * 1e-3), FormatUs(HistogramUs(*histogram, 0.5)),
                  FormatUs(HistogramUs(*histogram, 0.9)), FormatUs(HistogramUs(*histogram, 0.99)),
                  FormatUs(HistogramUs(*histogram, 0.999)), FormatUs(static_cast<double>(histogram->max_ns()) * 1e-3)});
  }
  table.Print(out);
}

void PrintSteps(const Report& report, std::ostream& out) {
  const SweepResult& sweep = *report.sweep;
  out << '\n';
  Table table({{"rate", Align::kRight},
               {"answered/s", Align::kRight},
               {"p50", Align::kRight},
               {"p99", Align::kRight},
               {"rejected", Align::kRight},
               {"late sends", Align::kRight},
               {""}});
  for (const SweepStep& step : sweep.steps) {
    table.AddRow({absl::StrFormat("%.1f", step.rate), absl::StrFormat("%.1f", step.result.rps()),
                  FormatUs(HistogramUs(step.result.latency, 0.5)), FormatUs(HistogramUs(step.result.latency, 0.99)),
                  absl::StrCat(step.result.counts.rejected), LateSends(step.result), Verdict(step)});
  }
  table.Print(out);
  out << '\n';
  if (sweep.best < 0) {
    Fact(out, "result", "no rate held the target");
  } else {
    const SweepStep& best = sweep.steps[static_cast<size_t>(sweep.best)];
    Fact(out, "result",
         absl::StrFormat("%.1f requests/s (%.1f queries/s) hold p99 <= %s", best.rate, best.result.qps(),
                         absl::FormatDuration(report.options->load.target_p99)));
  }
  Fact(out, "converged",
       sweep.converged
           ? "yes"
           : absl::StrCat("no: ", sweep.converged_reason, sweep.best < 0 ? "" : "; a higher rate may hold"));
}

std::string ErrorsText(const RunResult& result) {
  if (result.counts.errors == 0) return "0";
  std::vector<std::string> parts;
  for (size_t code = 0; code < kNumCodes; ++code) {
    if (result.errors[code] > 0) {
      parts.push_back(absl::StrCat(result.errors[code], " ", CodeName(code),
                                   result.errors[code] > 1 ? " (the first: " : " (", result.first_error[code], ")"));
    }
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string FormatUs(double us) {
  if (us < 1e3) return absl::StrFormat("%.0f us", us);
  if (us < 1e4) return absl::StrFormat("%.2f ms", us * 1e-3);
  if (us < 1e6) return absl::StrFormat("%.1f ms", us * 1e-3);
  return absl::StrFormat("%.2f s", us * 1e-6);
}

std::string LateSends(const RunResult& result) {
  const int64_t late = result.counts.late;
  if (late == 0) return "0";
  const auto sent = static_cast<double>(std::max<int64_t>(1, result.counts.requests()));
  return absl::StrFormat("%d (%.1f %%)", late, 100.0 * static_cast<double>(late) / sent);
}

std::string Verdict(const SweepStep& step) {
  return absl::StrCat(step.held ? "held" : step.reason, step.result.client_bound ? ", bound by the load tester" : "");
}

std::string DescribeLoad(const Report& report) {
  const LoadOptions& load = report.options->load;
  const char* transport = load.stream ? ", in streams" : "";
  if (load.mode == Mode::kClosed) {
    return absl::StrCat("closed loop, ", load.concurrency, " requests under way", transport);
  }
  const char* arrivals = load.arrivals == Arrivals::kPoisson ? "Poisson" : "fixed";
  return absl::StrFormat("open loop, %.1f requests/s, %s arrivals%s", report.result.rate, arrivals, transport);
}

void PrintReport(const Report& report, std::ostream& out) {
  const RunResult& result = report.result;
  if (report.sweep.has_value()) PrintSteps(report, out);
  out << '\n';
  Fact(out, "server", absl::StrCat(report.options->client.target, report.server.empty() ? "" : ", ", report.server));
  Fact(out, "workload", absl::StrCat(report.options->workload.collection, ": ", report.workload));
  Fact(out, "load", absl::StrFormat("%s, for %.1f s", DescribeLoad(report), result.duration_s));
  Fact(out, "answered",
       absl::StrFormat("%d requests, %.1f a second; %.1f queries a second", result.counts.answered, result.rps(),
                       result.qps()));
  Fact(out, "rejected",
       absl::StrFormat("%d (%.2f %%)", result.counts.rejected,
                       100.0 * static_cast<double>(result.counts.rejected) /
                           static_cast<double>(std::max<int64_t>(1, result.counts.requests()))));
  Fact(out, "errors", ErrorsText(result));
  if (report.options->load.mode != Mode::kClosed) {
    Fact(out, "late sends",
         absl::StrFormat("%d, %d of them at --max-in-flight; %d due and not sent", result.counts.late,
                         result.counts.late_at_limit, result.counts.unsent));
  }
  Fact(out, "stable", result.stability.stable ? "yes" : absl::StrCat("no: ", result.stability.reason));
  Fact(out, "load tester",
       absl::StrFormat("%.1f s of processor time, %.1f us a request%s", result.client_cpu_s,
                       result.client_cpu_s * 1e6 / static_cast<double>(std::max<int64_t>(1, result.counts.requests())),
                       result.machine_busy < 0 ? ""
                                               : absl::StrFormat("; the processors that it may use were %.0f %% busy",
                                                                 100 * result.machine_busy)));
  if (report.client_bound()) Fact(out, "BOUND", absl::StrCat("by the load tester: ", report.client_bound_reason()));
  out << '\n';
  PrintLatencies(result, out);
  out.flush();
}

}  // namespace maxsim::loadtest
