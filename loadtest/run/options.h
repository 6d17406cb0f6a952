// The options of one run of maxsim-loadtest. They are plain values, which ParseCommandLine (command_line.h) fills in
// and checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/options.h"
#include "kernels/scalar_type.h"
#include "loadtest/random/schedule.h"
#include "loadtest/random/token_counts.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::loadtest {

enum class CandidateKind { kIds, kWholeCollection, kInline };
// How answers are checked. kExact checks everything that the server promises and a client can see. kOrder checks the
// same, except that several answers to one request need not be equal in every bit. kNone checks nothing.
enum class AnswerCheck { kExact, kOrder, kNone };
enum class Mode { kClosed, kOpen, kSweep };

struct WorkloadOptions {
  std::string collection;

  CandidateKind candidates = CandidateKind::kIds;
  uint64_t num_candidates = 1000;  // ids, or inline documents, of one query
  std::string ids_file;
  uint64_t int_ids = 0;  // if not 0, the ids are 0 .. int_ids - 1; if 0, those of ids_file
  // If set, ids are strings: this prefix and a number below int_ids. If not set, ids are these numbers.
  std::optional<std::string> id_prefix;
  double zipf_exponent = 0;  // exponent of the candidates' popularity (popularity.h)
  TokenCounts document_tokens{180};
  std::string filter;  // as text; empty: every candidate is scored

  std::string queries_file, query_lengths_file;  // recorded queries; empty: synthetic ones
  TokenCounts query_tokens{32};
  ScalarType dtype = ScalarType::kF16;  // storage type of synthetic tokens
  uint32_t queries_per_request = 1;
  bool shared_candidates = true;
  uint64_t seed = 1;

  uint32_t top_k = 100;
  v1::Priority priority = v1::PRIORITY_NORMAL;
  AnswerCheck check = AnswerCheck::kExact;

  uint64_t pool_requests = 1024;              // requests prepared before the clock starts, and sent in turn
  uint64_t pool_bytes = uint64_t{512} << 20;  // maximum of their bytes; at least 4 requests are prepared
};

struct LoadOptions {
  Mode mode = Mode::kClosed;
  int concurrency = 16;  // closed loop: requests in flight
  double rate = 0;       // open loop: requests per second; sweep: the first rate
  Arrivals arrivals = Arrivals::kPoisson;
  absl::Duration target_p99 = absl::ZeroDuration();  // sweep: maximum of the p99
  // A sweep ends when the lowest rate that failed is at most this share above the best rate that held.
  double sweep_precision = 0.05;
  absl::Duration warmup = absl::Seconds(2);
  absl::Duration duration = absl::Seconds(10);
  int threads = 1;
  int max_in_flight = 4096;  // open loop: bound on requests in flight
  // A send that is later than this counts as late.
  absl::Duration late_after = absl::Milliseconds(1);
  absl::Duration timeout = absl::Seconds(10);  // bound on one request
  bool stream = false;                         // send by RerankStream in place of Rerank
  uint64_t seed = 1;
};

struct OutputOptions {
  std::string json_file, html_file, metrics_url;
  bool quiet = false;
};

struct Options {
  client::ClientOptions client;  // target, timeout, num_channels, TLS, token, client's name
  std::string token_file;
  WorkloadOptions workload;
  LoadOptions load;
  OutputOptions output;
  std::string command;  // as it was typed
};

}  // namespace maxsim::loadtest
