#include "loadtest/report/report.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/random/random.h"
#include "loadtest/report/chart.h"

namespace maxsim::loadtest {
namespace {

using nlohmann::ordered_json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Interval Second(double end_s, double rps) {
  Interval interval;
  interval.begin_s = end_s - 1;
  interval.end_s = end_s;
  interval.rps = rps;
  interval.qps = 2 * rps;
  interval.p50_us = 1000;
  interval.p99_us = 5000;
  interval.rejected = 3;
  interval.in_flight = 16;
  return interval;
}

RunResult SomeResult(double rate) {
  RunResult result;
  result.rate = rate;
  result.duration_s = 3;
  result.counts = {
      .answered = 300, .queries = 600, .rejected = 9, .errors = 2, .late = 4, .late_at_limit = 1, .unsent = 0};
  result.errors[static_cast<size_t>(absl::StatusCode::kDeadlineExceeded)] = 2;
  result.first_error[static_cast<size_t>(absl::StatusCode::kDeadlineExceeded)] = "too <late> \"&\" \xff\x1b[2J";
  for (int64_t i = 1; i <= 300; ++i) {
    result.latency.Record(i * 10'000);
    result.server_queue.Record(i * 1000);
    result.kernel.Record(40'000);
  }
  for (int i = 1; i <= 3; ++i) result.series.push_back(Second(i, 100));
  result.stability.stable = true;
  result.client_cpu_s = 0.6;
  result.threads_busy = {0.2};
  return result;
}

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    options_.client.target = "host:7070";
    options_.workload.collection = "docs";
    options_.command = "maxsim-loadtest --collection <docs> & more";
    options_.load.mode = Mode::kOpen;
    report_.options = &options_;
    report_.workload = "1,000 of 5,000 ids a query";
    report_.num_candidates = 1000;
    report_.result = SomeResult(150);
    report_.whole = {.sent = 400, .answered = 385, .rejected = 12, .errors = 3};
  }

  void MakeSweep() {
    options_.load.mode = Mode::kSweep;
    options_.load.target_p99 = absl::Milliseconds(4);
    SweepResult sweep;
    for (const double rate : {100.0, 200.0, 150.0}) {
      sweep.steps.push_back(
          {.rate = rate, .held = rate < 200, .reason = rate < 200 ? "" : "p99 9ms", .result = SomeResult(rate)});
    }
    sweep.best = 2;
    sweep.converged = true;
    report_.sweep = sweep;
  }

  void AddMetrics() {
    for (int i = 1; i <= 3; ++i) {
      ServerSecond second;
      second.at_s = i;
      second.queue_jobs = 4;
      second.batch_queries_mean = 12.5;
      second.kernel_seconds = 0.8;
      report_.server_metrics.push_back(second);
    }
  }

  Options options_;
  Report report_;
};

TEST_F(ReportTest, JsonHasEveryMemberWithItsValue) {
  AddMetrics();
  const ordered_json json = ToJson(report_);
  for (const char* name : {"version",
                           "command",
                           "target",
                           "collection",
                           "mode",
                           "concurrency",
                           "rate",
                           "queries_per_request",
                           "candidates",
                           "duration_s",
                           "requests",
                           "queries",
                           "rps",
                           "qps",
                           "latency_us",
                           "server_us",
                           "errors",
                           "rejected",
                           "late_sends",
                           "stable",
                           "client_bound",
                           "client_bound_reason",
                           "client_cpu_s",
                           "series",
                           "server_metrics",
                           "steps"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["mode"], "open");
  EXPECT_EQ(json["rate"], 150);
  EXPECT_TRUE(json["concurrency"].is_null());
  EXPECT_EQ(json["requests"], 311);
  EXPECT_EQ(json["queries"], 600);
  EXPECT_EQ(json["rps"], 100);
  EXPECT_EQ(json["qps"], 200);
  EXPECT_EQ(json["rejected"], 9);
  EXPECT_EQ(json["errors"], (ordered_json{{"DEADLINE_EXCEEDED", 2}}));
  EXPECT_EQ(json["late_sends"], 4);
  EXPECT_EQ(json["whole_run"]["sent"], 400);
  EXPECT_EQ(json["candidates"], 1000);
  EXPECT_NEAR(json["latency_us"]["p50"], 1500, 6);
  EXPECT_NEAR(json["latency_us"]["p99"], 2970, 12);
  EXPECT_NEAR(json["latency_us"]["mean"], 1505, 1);
  EXPECT_EQ(json["latency_us"]["max"], 3000);
  for (const char* name : {"p90", "p95", "p999"}) EXPECT_TRUE(json["latency_us"][name].is_number()) << name;
  EXPECT_NEAR(json["server_us"]["queue_p50"], 150, 1);
  EXPECT_NEAR(json["server_us"]["kernel_p99"], 40, 0.2);
  ASSERT_EQ(json["series"].size(), 3u);
  EXPECT_EQ(json["series"][1], (ordered_json{{"second", 2.0},
                                             {"rps", 100.0},
                                             {"qps", 200.0},
                                             {"p50", 1000.0},
                                             {"p99", 5000.0},
                                             {"rejected", 3},
                                             {"errors", 0},
                                             {"in_flight", 16}}));
  ASSERT_EQ(json["server_metrics"].size(), 3u);
  EXPECT_EQ(
      json["server_metrics"][0],
      (ordered_json{{"second", 1.0}, {"queue_jobs", 4.0}, {"batch_queries_mean", 12.5}, {"kernel_seconds", 0.8}}));
  EXPECT_EQ(json["steps"], ordered_json::array());
  // The server's text in this report is not valid UTF-8. The report must be valid JSON all the same.
  EXPECT_TRUE(ordered_json::accept(json.dump(2, ' ', false, ordered_json::error_handler_t::replace)));
}

TEST_F(ReportTest, ASweepHasItsSteps) {
  MakeSweep();
  const ordered_json json = ToJson(report_);
  EXPECT_EQ(json["mode"], "sweep");
  EXPECT_EQ(json["held_rate"], 150);
  EXPECT_EQ(json["converged"], true);
  EXPECT_EQ(json["target_p99_us"], 4000);
  ASSERT_EQ(json["steps"].size(), 3u);
  EXPECT_EQ(json["steps"][1]["rate"], 200);
  EXPECT_EQ(json["steps"][1]["held"], false);
  EXPECT_EQ(json["steps"][1]["reason"], "p99 9ms");
  EXPECT_NEAR(json["steps"][0]["latency_us"]["p99"], 2970, 12);
  report_.sweep->best = -1;
  EXPECT_TRUE(ToJson(report_)["held_rate"].is_null());
}

TEST_F(ReportTest, ASweepsStepsSayHowManySendsWereLate) {
  MakeSweep();
  RunResult& result = report_.sweep->steps[1].result;
  result.counts.late = 39;
  result.client_bound = true;
  std::ostringstream out;
  PrintReport(report_, out);
  EXPECT_THAT(out.str(), HasSubstr("late sends"));
  EXPECT_THAT(out.str(), ContainsRegex("200\\.0 .* 39 \\([0-9.]+ %\\) +p99 9ms, bound by the load tester\n"));
  EXPECT_THAT(out.str(), ContainsRegex("100\\.0 .* 4 \\(1.3 %\\) +held\n"));
  EXPECT_THAT(ToHtml(report_), ContainsRegex("<td>39 .*</td><td>p99 9ms, bound by the load tester</td>"));
  EXPECT_EQ(ToJson(report_)["steps"][1]["late_sends"], 39);
}

TEST_F(ReportTest, ASweepThatDidNotConvergeSaysSoEverywhere) {
  const auto table = [this] {
    std::ostringstream out;
    PrintReport(report_, out);
    return out.str();
  };
  EXPECT_FALSE(ToJson(report_).contains("converged")) << "only a sweep can";
  EXPECT_THAT(table(), Not(HasSubstr("converged")));
  MakeSweep();
  EXPECT_THAT(table(), HasSubstr("converged     yes"));
  EXPECT_THAT(ToHtml(report_), Not(HasSubstr("did not converge")));
  report_.sweep->converged = false;
  report_.sweep->converged_reason = "it was <ended>";
  const ordered_json json = ToJson(report_);
  EXPECT_EQ(json["converged"], false);
  EXPECT_EQ(json["converged_reason"], "it was <ended>");
  EXPECT_THAT(table(), HasSubstr("converged     no: it was <ended>; a higher rate may hold\n"));
  EXPECT_THAT(ToHtml(report_), HasSubstr("did not converge: it was &lt;ended&gt;; a higher rate may hold</p>"));
  report_.sweep->best = -1;
  EXPECT_THAT(table(), HasSubstr("converged     no: it was <ended>\n"));
  EXPECT_THAT(ToHtml(report_), HasSubstr("did not converge: it was &lt;ended&gt;</p>"));
}

TEST_F(ReportTest, ASweepFailsForNoRateAndForWrongAnswersAndNotForErrorsBeyondTheRate) {
  EXPECT_TRUE(report_.failed()) << "3 errors";
  report_.whole.errors = 0;
  EXPECT_FALSE(report_.failed());
  MakeSweep();
  report_.whole.errors = 30;
  EXPECT_FALSE(report_.failed());
  report_.whole.wrong = 1;
  EXPECT_TRUE(report_.failed());
  EXPECT_EQ(ToJson(report_)["whole_run"]["wrong"], 1);
  report_.whole = {};
  EXPECT_FALSE(report_.failed());
  report_.sweep->best = -1;
  EXPECT_TRUE(report_.failed());
}

TEST_F(ReportTest, NoNumberOfAnEmptyRunIsWrong) {
  report_.result = RunResult();
  report_.result.threads_busy = {0};
  const std::string text = ToJson(report_).dump();
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_EQ(ordered_json::parse(text)["rps"], 0);
  std::ostringstream out;
  PrintReport(report_, out);
  EXPECT_THAT(out.str(), Not(HasSubstr("nan")));
  EXPECT_THAT(ToHtml(report_), Not(HasSubstr("nan")));
}

TEST_F(ReportTest, TheTableSaysWhatMatters) {
  report_.result.client_bound = true;
  report_.result.client_bound_reason = "sending thread 0 was on a processor 99 % of the time";
  std::ostringstream out;
  PrintReport(report_, out);
  EXPECT_THAT(out.str(), HasSubstr("300 requests, 100.0 a second; 200.0 queries a second"));
  EXPECT_THAT(out.str(), HasSubstr("2 DEADLINE_EXCEEDED (the first: too <late>"));
  EXPECT_THAT(out.str(), HasSubstr("9 (2.89 %)"));
  EXPECT_THAT(out.str(), HasSubstr("by the load tester: sending thread 0"));
  EXPECT_THAT(out.str(), HasSubstr("1929.3 us a request")) << "0.6 s for 311 requests";
  EXPECT_THAT(out.str(), Not(HasSubstr("\x1b")));
}

// Checks that the elements are closed in the right order, as XML requires. Returns "", or what is wrong. Adds the
// names of all elements to `names`.
std::string NotWellFormed(const std::string& html, std::vector<std::string>& names) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag without end at " + std::to_string(at);
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (tag.front() == '!') continue;
    if (tag.find('<') != std::string::npos) return "a < in the tag " + tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "an open quotation mark in the tag " + tag;
    const bool closing = tag.front() == '/';
    const std::string name = tag.substr(closing ? 1 : 0, tag.find_first_of(" />", 1) - (closing ? 1 : 0));
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
      continue;
    }
    names.push_back(name);
    if (tag.back() != '/') open.push_back(name);
    if (name == "style") at = html.find("</style>", end) - 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

TEST_F(ReportTest, ThePageIsWellFormedAndStandsByItself) {
  MakeSweep();
  AddMetrics();
  report_.result.stability.stable = false;
  report_.result.stability.reason = "a < b";
  const std::string html = ToHtml(report_);
  std::vector<std::string> names;
  EXPECT_EQ(NotWellFormed(html, names), "");
  for (const char* wanted : {"html", "head", "body", "table", "svg", "path", "figure"}) {
    EXPECT_THAT(names, testing::Contains(wanted));
  }
  for (const char* unwanted : {"script", "link", "img", "iframe"}) EXPECT_THAT(names, Not(testing::Contains(unwanted)));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, HasSubstr("--collection &lt;docs&gt; &amp; more"));
  for (const char* chart : {"Latency by rate", "Percentiles", "Requests", "Batch size", "Queue", "Busy"}) {
    EXPECT_THAT(html, HasSubstr("<figcaption>" + std::string(chart) + " <span>")) << chart;
  }
  EXPECT_THAT(html, Not(HasSubstr("<figcaption>Documents read"))) << "there are no figures for it";
  EXPECT_THAT(html, HasSubstr("p99 9ms"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST(ChartTest, PointsLieWhereTheirValuesAreAndTheUnusableAreLeftOut) {
  Chart chart{.title = "t",
              .x_label = "x",
              .y_label = "y",
              .lines = {{"a", {{0, 0}, {5, NAN}, {10, 100}}}},
              .log_y = false,
              .mark_points = false,
              .y_rule = 0,
              .x_ticks = {}};
  EXPECT_THAT(DrawChart(chart), HasSubstr("d=\"M64.0 220.0 L624.0 12.0\""));
  chart.log_y = true;
  chart.lines[0].points = {{0, 0}, {1, 10}, {2, 1000}};
  EXPECT_THAT(DrawChart(chart), HasSubstr("d=\"M64.0 220.0 L624.0 12.0\""));
  chart.lines[0].points = {{0, -1}};
  EXPECT_EQ(DrawChart(chart), "");
  chart.lines.clear();
  EXPECT_EQ(DrawChart(chart), "");
}

TEST(ChartTest, TicksAreRoundAndSpanTheRange) {
  EXPECT_EQ(Ticks(0, 100), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const double low = random.Uniform() * 1000, high = low + std::exp(20 * random.Uniform() - 10);
    const std::vector<double> ticks = Ticks(low, high);
    EXPECT_LE(ticks.front(), low + 1e-6 * (high - low));
    EXPECT_GE(ticks.back(), high - 1e-6 * (high - low));
    EXPECT_TRUE(ticks.size() >= 3 && ticks.size() <= 8) << ticks.size();
  }
  EXPECT_EQ(Ticks(3, 3).size(), 1u);
}

TEST(FormatUsTest, KeepsTheDigitsThatMatter) {
  EXPECT_EQ(FormatUs(0), "0 us");
  EXPECT_EQ(FormatUs(213.4), "213 us");
  EXPECT_EQ(FormatUs(2134), "2.13 ms");
  EXPECT_EQ(FormatUs(21340), "21.3 ms");
  EXPECT_EQ(FormatUs(3.1e6), "3.10 s");
}

}  // namespace
}  // namespace maxsim::loadtest
