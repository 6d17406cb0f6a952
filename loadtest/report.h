// What maxsim-loadtest says about a run: a table for the terminal, JSON for programs, a page for people.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "loadtest/options.h"
#include "loadtest/run.h"
#include "loadtest/server_metrics.h"
#include "loadtest/sweep.h"
#include "nlohmann/json.hpp"

namespace maxsim::loadtest {

struct Report {
  const Options* options = nullptr;
  std::string workload;                      // Workload::description
  uint64_t num_candidates = 0;               // of a query
  size_t pool_requests = 0;                  // prepared ones
  std::string server;                        // "maxsimd 0.1.0 (1a2b3c), cpu avx2"; "" where it does not say
  std::string started;                       // RFC 3339
  RunResult result;                          // of a sweep: the best step, or else the last
  std::vector<ServerSecond> server_metrics;  // while it ran; empty without --metrics
  int scrape_failures = 0;
  std::optional<SweepResult> sweep;
  // Requests of everything that was sent, warm-ups, steps and the one before the clock starts included: what the
  // server's own counters must agree with.
  struct {
    int64_t sent = 0, answered = 0, rejected = 0, errors = 0;
    int64_t wrong = 0;  // of the errors: answers that were wrong
  } whole;

  // Was the load tester itself the bound of what is reported?
  bool client_bound() const { return sweep.has_value() ? sweep->client_bound : result.client_bound; }
  const std::string& client_bound_reason() const {
    return sweep.has_value() ? sweep->client_bound_reason : result.client_bound_reason;
  }
  // Did it fail? A sweep goes beyond what the server can do on purpose, and requests time out there: it fails when no
  // rate held (one that has errors does not), and for a wrong answer at any rate.
  bool failed() const { return sweep.has_value() ? sweep->best < 0 || whole.wrong > 0 : whole.errors > 0; }
};

// Durations in microseconds in members that end in _us, or are below one. docs/operate/load-test.md lists them.
nlohmann::ordered_json ToJson(const Report& report);

void PrintReport(const Report& report, std::ostream& out);

// Returns a page by itself: style and drawings are in it, and no script.
std::string ToHtml(const Report& report);

// "closed loop, 64 requests under way".
std::string DescribeLoad(const Report& report);

// "RESOURCE_EXHAUSTED" for 8.
std::string CodeName(size_t code);

// Returns a latency with the digits that matter: "213 us", "2.13 ms", "3.10 s".
std::string FormatUs(double us);

// "188 (1.9 %)" of what was sent, "0".
std::string LateSends(const RunResult& result);

// "held", or why not; and whether the load tester was the bound.
std::string Verdict(const SweepStep& step);

}  // namespace maxsim::loadtest
