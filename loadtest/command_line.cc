#include "loadtest/command_line.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "loadtest/run/machine.h"
#include "maxsim_version.h"
#include "tools/command_line/checks.h"
#include "tools/command_line/server_target.h"
#include "tools/command_line/terminal.h"
#include "tools/command_line/usage_message.h"

namespace maxsim::loadtest {
namespace {

constexpr char kFooter[] =
    R"(Durations are 500us, 20ms, 10s, 2m. DIST is N, uniform:MIN:MAX or lognormal:MEAN:MIN:MAX tokens.

Closed loop: --concurrency requests are under way at any time; each answer sends the next. Says what a number of clients
gets. Open loop: requests are sent when they are due, whatever has come back, and latency counts from the intended time.
Says what a rate of requests feels. --sweep finds the highest rate whose p99 stays under --target-p99.

Examples:
  maxsim-loadtest --target localhost:7070 --collection docs --int-ids 100000 --concurrency 64
  maxsim-loadtest --target localhost:7070 --collection docs --ids ids.txt --zipf 1 --queries queries.npy \
      --query-lengths lengths.npy --mode open --rate 2000 --json report.json --html report.html
  maxsim-loadtest --target localhost:7070 --collection docs --int-ids 100000 --id-prefix doc- --sweep --target-p99 20ms \
      --metrics http://localhost:7071/metrics --html sweep.html

The report goes to standard output, progress and remarks to standard error.
Exit codes: 0 every answer was right, or a rejection; 1 errors; 2 the command line is wrong; 3 the load tester itself was
the bound. Of a sweep, 1 says that no rate held, or that an answer was wrong: requests that time out beyond the rate that
held are what it looks for.)";

constexpr int kMaxThreads = 256;
// a request's tag cannot hold times much longer than this (worker.cc)
constexpr absl::Duration kLongestRun = absl::Hours(4);

[[noreturn]] void Usage(const std::string& flag, const std::string& what) { throw CLI::ValidationError(flag, what); }

absl::Duration ParseDuration(const std::string& flag, const std::string& text, bool zero_allowed = false) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() || duration > kLongestRun ||
      (duration == absl::ZeroDuration() && !zero_allowed)) {
    Usage(flag, absl::StrCat("\"", text, "\" must be a duration such as 500us, 20ms or 10s, ",
                             zero_allowed ? "from 0" : "more than 0", " to 4h"));
  }
  return duration;
}

TokenCounts ParseTokens(const std::string& flag, const std::string& text) {
  absl::StatusOr<TokenCounts> counts = TokenCounts::Parse(text);
  if (!counts.ok()) Usage(flag, std::string(counts.status().message()));
  return *std::move(counts);
}

// The texts of flags whose values are parsed after all flags have been read.
struct UnparsedValues {
  std::string candidates = "1000", query_tokens = "32", document_tokens = "180", dtype = "f16";
  std::string mode = "closed", arrivals = "poisson", priority = "normal", check = "exact";
  std::string id_prefix, target_p99, warmup = "2s", duration = "10s", timeout = "10s", late_after = "1ms";
  bool sweep = false;
};

// Records which flags were given, so that flags that have no effect together with others can be refused.
class GivenFlags {
 public:
  explicit GivenFlags(const CLI::App& app) : app_(app) {}
  bool operator()(const std::string& flag) const { return app_.get_option(flag)->count() > 0; }
  void Refuse(const std::string& flag, const std::string& why) const {
    if ((*this)(flag)) Usage(flag, why);
  }

 private:
  const CLI::App& app_;
};

void AddServer(CLI::App& app, Options& options, UnparsedValues& texts) {
  app.option_defaults()->group("Server");
  app.add_option(
         "--target", options.client.target,
         "The server's gRPC port, 7070 by default; dns:///NAME:PORT takes all addresses of a name in turn, unix:PATH a "
         "Unix socket")
      ->required()
      ->transform(CLI::Validator(command_line::TakeServerTarget, ""))
      ->type_name("HOST:PORT");
  app.add_option("--collection", options.workload.collection, "The collection to ask")->required()->type_name("NAME");
  app.add_option("--timeout", texts.timeout, "Of one request; beyond it is DEADLINE_EXCEEDED, an error")
      ->capture_default_str()
      ->type_name("D");
  app.add_option("--token-file", options.token_file, "File whose first token is sent")->type_name("FILE");
  app.add_option("--client-id", options.client.client_id, "Name whose share of a busy server the requests take")
      ->type_name("NAME");
  app.add_option("--client-key", options.client.client_key,
                 "Metadata key of --client-id: the server's batching.client_key")
      ->capture_default_str()
      ->type_name("KEY");
  CLI::Option* tls = app.add_flag("--tls", options.client.tls.enabled, "Connect with TLS");
  app.add_option("--tls-ca", options.client.tls.ca_file, "Certificates that may sign the server's (PEM)")
      ->needs(tls)
      ->type_name("FILE");
  CLI::Option* cert = app.add_option("--tls-cert", options.client.tls.cert_file, "This client's certificate (PEM)");
  CLI::Option* key = app.add_option("--tls-key", options.client.tls.key_file, "This client's private key (PEM)");
  cert->needs(tls)->needs(key)->type_name("FILE");
  key->needs(tls)->needs(cert)->type_name("FILE");
  app.add_option("--tls-server-name", options.client.tls.server_name, "Name expected in the server's certificate")
      ->needs(tls)
      ->type_name("NAME");
}

void AddWorkload(CLI::App& app, WorkloadOptions& workload, UnparsedValues& texts) {
  app.option_defaults()->group("Requests");
  app.add_option("--candidates", texts.candidates,
                 "Of each query: N distinct ids, all (the whole collection), or inline:N documents in the request")
      ->capture_default_str()
      ->type_name("N|all|inline:N");
  CLI::Option* ids = app.add_option("--ids", workload.ids_file, "Ids to draw candidates from, one a line");
  ids->type_name("FILE");
  CLI::Option* int_ids = app.add_option("--int-ids", workload.int_ids, "Draw candidates from the ids 0 .. N-1");
  int_ids->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))->excludes(ids)->type_name("N");
  app.add_option("--id-prefix", texts.id_prefix, "With --int-ids: string ids P0, P1, ...")
      ->needs(int_ids)
      ->type_name("P");
  app.add_option("--filter", workload.filter,
                 "Score only candidates that match, such as 'lang = \"en\"' (docs/reference/filters.md)")
      ->type_name("TEXT");
  app.add_option("--zipf", workload.zipf_exponent, "Popularity of ids: rank r has weight 1/r^S; 0: all alike")
      ->check(CLI::Range(0.0, 10.0))
      ->check(command_line::NotNan)
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--document-tokens", texts.document_tokens, "Tokens of an inline document")
      ->capture_default_str()
      ->type_name("DIST");
  app.add_option("--queries", workload.queries_file, "Recorded query tokens, .npy, as maxsimctl takes them")
      ->type_name("FILE");
  app.add_option("--query-lengths", workload.query_lengths_file, "Tokens of each query in --queries, .npy of integers")
      ->needs("--queries")
      ->type_name("FILE");
  app.add_option("--query-tokens", texts.query_tokens, "Tokens of a synthetic query (random unit vectors)")
      ->excludes("--queries")
      ->capture_default_str()
      ->type_name("DIST");
  app.add_option("--dtype", texts.dtype, "Element type of synthetic tokens: f16, bf16 or f32")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str()
      ->type_name("TYPE");
  app.add_option("--queries-per-request", workload.queries_per_request, "Queries of one request")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--shared-candidates", workload.shared_candidates, "Do the queries of a request share one list?")
      ->default_str("true")
      ->type_name("true|false");
  app.add_option("--top-k", workload.top_k, "Results of a query")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str()
      ->type_name("K");
  app.add_option("--priority", texts.priority, "low, normal or high")
      ->check(CLI::IsMember({"low", "normal", "high"}))
      ->capture_default_str()
      ->type_name("P");
  app.add_option("--seed", workload.seed, "Of everything random")->capture_default_str()->type_name("N");
  app.add_option("--check", texts.check,
                 "Of answers: exact (whole, in order, and the same bits for the same request), order, or none")
      ->check(CLI::IsMember({"exact", "order", "none"}))
      ->capture_default_str()
      ->type_name("WHAT");
  app.add_option("--pool-requests", workload.pool_requests, "Requests prepared before the clock starts, sent in turn")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str()
      ->type_name("N");
}

void AddLoad(CLI::App& app, Options& options, UnparsedValues& texts) {
  LoadOptions& load = options.load;
  app.option_defaults()->group("Load");
  app.add_option("--mode", texts.mode, "closed or open")
      ->check(CLI::IsMember({"closed", "open"}))
      ->capture_default_str()
      ->type_name("MODE");
  app.add_option("--concurrency", load.concurrency, "Closed loop: requests under way")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--rate", load.rate, "Open loop: requests a second; with --sweep: the first rate (100)")
      ->check(CLI::Range(0.01, 1e7))
      ->check(command_line::NotNan)
      ->type_name("R");
  app.add_option("--arrivals", texts.arrivals, "Open loop: poisson or fixed")
      ->check(CLI::IsMember({"poisson", "fixed"}))
      ->capture_default_str()
      ->type_name("KIND");
  app.add_flag("--sweep", texts.sweep, "Find the highest open-loop rate that holds --target-p99");
  app.add_option("--target-p99", texts.target_p99, "With --sweep: the 99th percentile to hold")->type_name("D");
  app.add_option("--sweep-precision", load.sweep_precision, "With --sweep: share between the last two rates")
      ->check(CLI::Range(0.001, 1.0))
      ->check(command_line::NotNan)
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--warmup", texts.warmup, "Load before what is measured, of each run")
      ->capture_default_str()
      ->type_name("D");
  app.add_option("--duration", texts.duration, "What is measured, of each run")->capture_default_str()->type_name("D");
  app.add_option("--threads", load.threads, "Sending threads")
      ->check(CLI::Range(1, kMaxThreads))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--channels", options.client.num_channels, "Connections to each address [two a thread]")
      ->check(CLI::Range(1, kMaxThreads))
      ->type_name("N");
  app.add_option("--max-in-flight", load.max_in_flight, "Open loop: requests under way; beyond it sends are late")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--late-after", texts.late_after, "Open loop: a send later than this counts as late")
      ->capture_default_str()
      ->type_name("D");
  app.add_flag("--stream", load.stream, "Send in RerankStreams, one a connection");
}

void AddOutput(CLI::App& app, OutputOptions& output) {
  app.option_defaults()->group("Output");
  app.add_option("--json", output.json_file, "Write the report as JSON")->type_name("FILE");
  app.add_option("--html", output.html_file, "Write the report as a page")->type_name("FILE");
  app.add_option("--metrics", output.metrics_url,
                 "The server's metrics, read every second: http://HOST:7071/metrics, or https: (--tls-ca)")
      ->type_name("URL");
  app.add_flag("--quiet", output.quiet, "No live progress");
}

void SetCandidates(const GivenFlags& given, const std::string& text, WorkloadOptions& workload) {
  constexpr absl::string_view kInline = "inline:";
  absl::string_view number = text;
  if (text == "all") {
    workload.candidates = CandidateKind::kWholeCollection;
    workload.num_candidates = 0;
  } else {
    if (number.substr(0, kInline.size()) == kInline) {
      workload.candidates = CandidateKind::kInline;
      number.remove_prefix(kInline.size());
    }
    if (!absl::SimpleAtoi(number, &workload.num_candidates) || workload.num_candidates < 1 ||
        workload.num_candidates > uint64_t{1} << 30) {
      Usage("--candidates", absl::StrCat("\"", text, "\" must be N, all or inline:N, with N from 1 to 2^30"));
    }
  }
  if (workload.candidates != CandidateKind::kInline) {
    given.Refuse("--document-tokens", "is for --candidates inline:N only");
  }
  if (workload.candidates == CandidateKind::kIds) {
    if (!given("--ids") && !given("--int-ids")) {
      Usage("--candidates", "ids are drawn from --ids FILE or --int-ids N: one of them is needed");
    }
    return;
  }
  if (workload.candidates == CandidateKind::kInline)
    given.Refuse("--filter", "is for documents of the collection only");
  for (const char* flag : {"--ids", "--int-ids", "--zipf"}) given.Refuse(flag, "is for --candidates N only");
}

void SetLoad(const GivenFlags& given, const UnparsedValues& texts, LoadOptions& load) {
  if (texts.sweep) {
    if (given("--mode") && texts.mode == "closed") Usage("--sweep", "is an open loop; --mode closed has none");
    if (!given("--target-p99")) Usage("--sweep", "--target-p99 is needed");
    load.mode = Mode::kSweep;
    load.target_p99 = ParseDuration("--target-p99", texts.target_p99);
    if (!given("--rate")) load.rate = 100;
  } else {
    load.mode = texts.mode == "open" ? Mode::kOpen : Mode::kClosed;
    for (const char* flag : {"--target-p99", "--sweep-precision"}) given.Refuse(flag, "is for --sweep only");
  }
  if (load.mode == Mode::kOpen && !given("--rate")) Usage("--mode", "open needs --rate");
  if (load.mode == Mode::kClosed) {
    for (const char* flag : {"--rate", "--arrivals", "--max-in-flight", "--late-after"}) {
      given.Refuse(flag, "is for --mode open and --sweep only");
    }
  } else {
    given.Refuse("--concurrency", "is for --mode closed only");
  }
  load.arrivals = texts.arrivals == "fixed" ? Arrivals::kFixed : Arrivals::kPoisson;
  load.warmup = ParseDuration("--warmup", texts.warmup, /*zero_allowed=*/true);
  load.duration = ParseDuration("--duration", texts.duration);
  load.late_after = ParseDuration("--late-after", texts.late_after);
  load.timeout = ParseDuration("--timeout", texts.timeout);
  if (load.warmup + load.duration > kLongestRun) Usage("--duration", "with --warmup it must be at most 4h");
}

void SetValues(const CLI::App& app, const UnparsedValues& texts, Options& options) {
  const GivenFlags given(app);
  WorkloadOptions& workload = options.workload;
  SetCandidates(given, texts.candidates, workload);
  if (given("--id-prefix")) workload.id_prefix = texts.id_prefix;  // an empty prefix counts as given
  SetLoad(given, texts, options.load);
  workload.query_tokens = ParseTokens("--query-tokens", texts.query_tokens);
  workload.document_tokens = ParseTokens("--document-tokens", texts.document_tokens);
  workload.dtype = *ScalarTypeFromName(texts.dtype);
  workload.priority = texts.priority == "low"    ? v1::PRIORITY_LOW
                      : texts.priority == "high" ? v1::PRIORITY_HIGH
                                                 : v1::PRIORITY_NORMAL;
  workload.check = texts.check == "none"    ? AnswerCheck::kNone
                   : texts.check == "order" ? AnswerCheck::kOrder
                                            : AnswerCheck::kExact;
  options.load.seed = workload.seed;
  options.client.timeout = options.load.timeout;
  if (!given("--channels")) options.client.num_channels = std::min(2 * options.load.threads, kMaxThreads);
}

}  // namespace

std::optional<Options> ParseCommandLine(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                                        int& exit_code) {
  Options options;
  UnparsedValues texts;
  // By default a quarter of the processors send, because the server is often on the same machine and needs the rest.
  options.load.threads = std::clamp(NumProcessors() / 4, 1, 8);
  options.command = absl::StrCat("maxsim-loadtest ", absl::StrJoin(arguments, " "));
  CLI::App app("Measures a maxsimd server under load.", "maxsim-loadtest");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("maxsim-loadtest ") + kVersion + " (" + kCommit + ")");
  exit_code = kExitUsage;
  try {
    AddServer(app, options, texts);
    AddWorkload(app, options.workload, texts);
    AddLoad(app, options, texts);
    AddOutput(app, options.output);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes a vector in reverse order
    SetValues(app, texts, options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help, --version
      app.exit(error, out, err);
      exit_code = kExitOk;
    } else {
      err << "maxsim-loadtest: " << command_line::WithoutControls(command_line::UsageMessage(app, error))
          << " (see maxsim-loadtest --help)\n";
    }
    return std::nullopt;
  } catch (const std::exception& error) {  // thrown by a library: nothing here throws
    err << "maxsim-loadtest: " << command_line::WithoutControls(error.what()) << '\n';
    return std::nullopt;
  }
  exit_code = kExitOk;
  return options;
}

}  // namespace maxsim::loadtest
