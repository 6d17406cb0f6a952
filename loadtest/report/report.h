// Formats the results of a maxsim-loadtest run: a table for the terminal, JSON for programs, an HTML page for people.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "loadtest/run/options.h"
#include "loadtest/run/run.h"
#include "loadtest/run/server_metrics.h"
#include "loadtest/run/sweep.h"
#include "nlohmann/json.hpp"

namespace maxsim::loadtest {

struct Report {
  const Options* options = nullptr;
  std::string workload;                      // Workload::description
  uint64_t num_candidates = 0;               // candidates of a query
  size_t pool_requests = 0;                  // prepared requests
  std::string server;                        // "maxsimd 0.1.0 (1a2b3c), cpu avx2"; "" if the server does not say
  std::string started;                       // RFC 3339
  RunResult result;                          // in a sweep: that of the best step, or of the last step if none held
  std::vector<ServerSecond> server_metrics;  // seconds of the run; empty without --metrics
  int scrape_failures = 0;
  std::optional<SweepResult> sweep;
  // All requests that were sent, including warm-ups, all sweep steps and the request before the clock starts. The
  // server's own counters must agree with these.
  struct {
    int64_t sent = 0, answered = 0, rejected = 0, errors = 0;
    int64_t wrong = 0;  // errors that are wrong answers
  } whole;

  // Returns whether the load tester itself, and not the server, limited the reported results.
  bool client_bound() const { return sweep.has_value() ? sweep->client_bound : result.client_bound; }
  const std::string& client_bound_reason() const {
    return sweep.has_value() ? sweep->client_bound_reason : result.client_bound_reason;
  }
  // Returns whether the run failed. A run without a sweep fails if it has errors. A sweep overloads the server on
  // purpose, so that requests time out; it fails only if no rate held (a rate with errors does not hold) or any answer
  // was wrong.
  bool failed() const { return sweep.has_value() ? sweep->best < 0 || whole.wrong > 0 : whole.errors > 0; }
};

// Returns the report's members, which docs/operate/load-test.md lists. Durations are in microseconds in members whose
// name, or whose parent's name, ends in _us.
nlohmann::ordered_json ToJson(const Report& report);

// Writes the report as a table.
void PrintReport(const Report& report, std::ostream& out);

// Returns a page that needs no other file: it contains its style and drawings, and no script.
std::string ToHtml(const Report& report);

// Returns the load in words, such as "closed loop, 64 requests under way".
std::string DescribeLoad(const Report& report);

// Returns the name of a gRPC status code, such as "RESOURCE_EXHAUSTED" for 8.
std::string CodeName(size_t code);

// Returns a latency with the digits that matter: "213 us", "2.13 ms", "3.10 s".
std::string FormatUs(double us);

// Returns how many sends were late, with their share of all sends: "188 (1.9 %)", or "0".
std::string LateSends(const RunResult& result);

// Returns "held", or the reason why the step did not hold its rate; also says if the load tester was the bottleneck.
std::string Verdict(const SweepStep& step);

}  // namespace maxsim::loadtest
