#include "loadtest/command_line.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::loadtest {
namespace {

using testing::HasSubstr;
using Arguments = std::vector<std::string>;

Arguments With(Arguments more) {
  Arguments all = {"--target", "host:7070", "--collection", "docs", "--int-ids", "5000"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Options Parsed(const Arguments& arguments) {
  std::ostringstream out, err;
  int exit_code = -1;
  std::optional<Options> options = ParseCommandLine(arguments, out, err, exit_code);
  EXPECT_EQ(err.str(), "");
  EXPECT_EQ(exit_code, kExitOk);
  EXPECT_TRUE(options.has_value());
  return options.value_or(Options());
}

std::string Refused(const Arguments& arguments) {
  std::ostringstream out, err;
  int exit_code = -1;
  EXPECT_FALSE(ParseCommandLine(arguments, out, err, exit_code).has_value());
  EXPECT_EQ(exit_code, kExitUsage);
  EXPECT_EQ(out.str(), "");
  return err.str();
}

TEST(CommandLineTest, DefaultsAreThoseOfTheHelp) {
  const Options options = Parsed(With({}));
  EXPECT_EQ(options.client.target, "host:7070");
  EXPECT_EQ(options.workload.collection, "docs");
  EXPECT_EQ(options.workload.candidates, CandidateKind::kIds);
  EXPECT_EQ(options.workload.num_candidates, 1000u);
  EXPECT_EQ(options.workload.int_ids, 5000u);
  EXPECT_EQ(options.workload.top_k, 100u);
  EXPECT_TRUE(options.workload.shared_candidates);
  EXPECT_EQ(options.load.mode, Mode::kClosed);
  EXPECT_EQ(options.load.warmup, absl::Seconds(2));
  EXPECT_EQ(options.load.duration, absl::Seconds(10));
  EXPECT_EQ(options.load.timeout, absl::Seconds(10));
  EXPECT_EQ(options.client.timeout, absl::Seconds(10));
  EXPECT_EQ(options.client.num_channels, 2 * options.load.threads);
  EXPECT_EQ(options.command, "maxsim-loadtest --target host:7070 --collection docs --int-ids 5000");
}

TEST(CommandLineTest, EveryFlagReachesItsOption) {
  const Options options = Parsed(With({"--id-prefix",
                                       "doc-",
                                       "--candidates",
                                       "77",
                                       "--filter",
                                       "year >= 2020",
                                       "--zipf",
                                       "0.9",
                                       "--query-tokens",
                                       "uniform:8:64",
                                       "--queries-per-request",
                                       "8",
                                       "--shared-candidates",
                                       "false",
                                       "--seed",
                                       "9",
                                       "--top-k",
                                       "5",
                                       "--timeout",
                                       "250ms",
                                       "--client-id",
                                       "load",
                                       "--client-key",
                                       "x-tenant",
                                       "--priority",
                                       "high",
                                       "--stream",
                                       "--mode",
                                       "open",
                                       "--rate",
                                       "1234.5",
                                       "--arrivals",
                                       "fixed",
                                       "--warmup",
                                       "0",
                                       "--duration",
                                       "500ms",
                                       "--channels",
                                       "3",
                                       "--threads",
                                       "5",
                                       "--max-in-flight",
                                       "99",
                                       "--late-after",
                                       "2ms",
                                       "--json",
                                       "a.json",
                                       "--html",
                                       "a.html",
                                       "--metrics",
                                       "http://h/metrics",
                                       "--quiet",
                                       "--dtype",
                                       "f32",
                                       "--check",
                                       "order",
                                       "--pool-requests",
                                       "12"}));
  EXPECT_EQ(options.client.client_id, "load");
  EXPECT_EQ(options.client.client_key, "x-tenant");
  EXPECT_EQ(options.client.load_balancing, "round_robin");
  const WorkloadOptions& workload = options.workload;
  EXPECT_EQ(workload.id_prefix, "doc-");
  EXPECT_EQ(workload.num_candidates, 77u);
  EXPECT_EQ(workload.filter, "year >= 2020");
  EXPECT_EQ(workload.zipf_exponent, 0.9);
  EXPECT_EQ(workload.query_tokens.text(), "uniform:8:64");
  EXPECT_EQ(workload.queries_per_request, 8u);
  EXPECT_FALSE(workload.shared_candidates);
  EXPECT_EQ(workload.seed, 9u);
  EXPECT_EQ(workload.top_k, 5u);
  EXPECT_EQ(workload.priority, v1::PRIORITY_HIGH);
  EXPECT_EQ(workload.dtype, ScalarType::kF32);
  EXPECT_EQ(workload.check, AnswerCheck::kOrder);
  EXPECT_EQ(workload.pool_requests, 12u);
  const LoadOptions& load = options.load;
  EXPECT_EQ(load.mode, Mode::kOpen);
  EXPECT_EQ(load.rate, 1234.5);
  EXPECT_EQ(load.arrivals, Arrivals::kFixed);
  EXPECT_EQ(load.warmup, absl::ZeroDuration());
  EXPECT_EQ(load.duration, absl::Milliseconds(500));
  EXPECT_EQ(load.late_after, absl::Milliseconds(2));
  EXPECT_EQ(load.timeout, absl::Milliseconds(250));
  EXPECT_EQ(load.threads, 5);
  EXPECT_EQ(load.max_in_flight, 99);
  EXPECT_TRUE(load.stream);
  EXPECT_EQ(load.seed, 9u);
  EXPECT_EQ(options.client.num_channels, 3);
  EXPECT_EQ(options.client.timeout, absl::Milliseconds(250));
  EXPECT_EQ(options.output.json_file, "a.json");
  EXPECT_EQ(options.output.html_file, "a.html");
  EXPECT_EQ(options.output.metrics_url, "http://h/metrics");
  EXPECT_TRUE(options.output.quiet);
}

TEST(CommandLineTest, CandidatesAreIdsAllOrInline) {
  const Arguments base = {"--target", "h", "--collection", "c"};
  Arguments arguments = base;
  arguments.insert(arguments.end(), {"--candidates", "all"});
  EXPECT_EQ(Parsed(arguments).workload.candidates, CandidateKind::kWholeCollection);
  arguments = base;
  arguments.insert(arguments.end(), {"--candidates", "inline:64", "--document-tokens", "lognormal:120:16:512"});
  const WorkloadOptions workload = Parsed(arguments).workload;
  EXPECT_EQ(workload.candidates, CandidateKind::kInline);
  EXPECT_EQ(workload.num_candidates, 64u);
  EXPECT_EQ(workload.document_tokens.text(), "lognormal:120:16:512");
  for (const char* wrong : {"0", "-1", "inline:", "inline:0", "some", "1e3"}) {
    EXPECT_THAT(Refused(With({"--candidates", wrong})), HasSubstr(std::string("\"") + wrong + "\" must be N, all"))
        << wrong;
  }
  EXPECT_THAT(Refused(base), HasSubstr("--ids FILE or --int-ids N"));
  EXPECT_THAT(Refused(With({"--candidates", "all"})), HasSubstr("--int-ids: is for --candidates N only"));
  EXPECT_THAT(Refused(With({"--document-tokens", "9"})), HasSubstr("inline:N only"));
}

TEST(CommandLineTest, ACertificateIsForTlsAndComesWithItsKey) {
  const client::TlsOptions tls = Parsed(With({"--tls", "--tls-ca", "ca.pem", "--tls-cert", "me.pem", "--tls-key",
                                              "me.key", "--tls-server-name", "rerank"}))
                                     .client.tls;
  EXPECT_TRUE(tls.enabled);
  EXPECT_EQ(tls.ca_file, "ca.pem");
  EXPECT_EQ(tls.cert_file, "me.pem");
  EXPECT_EQ(tls.key_file, "me.key");
  EXPECT_EQ(tls.server_name, "rerank");
  EXPECT_THAT(Refused(With({"--tls-cert", "me.pem", "--tls-key", "me.key"})), HasSubstr("requires --tls"));
  EXPECT_THAT(Refused(With({"--tls", "--tls-cert", "me.pem"})), HasSubstr("requires --tls-key"));
  EXPECT_THAT(Refused(With({"--tls", "--tls-key", "me.key"})), HasSubstr("requires --tls-cert"));
}

TEST(CommandLineTest, AnEmptyPrefixMakesStringIdsToo) {
  EXPECT_EQ(Parsed(With({})).workload.id_prefix, std::nullopt);
  EXPECT_EQ(Parsed(With({"--id-prefix", ""})).workload.id_prefix, "");
}

TEST(CommandLineTest, ASweepIsAnOpenLoopWithATarget) {
  const LoadOptions load = Parsed(With({"--sweep", "--target-p99", "20ms"})).load;
  EXPECT_EQ(load.mode, Mode::kSweep);
  EXPECT_EQ(load.target_p99, absl::Milliseconds(20));
  EXPECT_EQ(load.rate, 100);
  EXPECT_EQ(Parsed(With({"--sweep", "--mode", "open", "--target-p99", "1s", "--rate", "7"})).load.rate, 7);
  EXPECT_THAT(Refused(With({"--sweep"})), HasSubstr("--target-p99 is needed"));
  EXPECT_THAT(Refused(With({"--sweep", "--target-p99", "1s", "--mode", "closed"})), HasSubstr("is an open loop"));
  EXPECT_THAT(Refused(With({"--target-p99", "1s"})), HasSubstr("is for --sweep only"));
}

TEST(CommandLineTest, WhatHasNoUseInAModeIsRefused) {
  EXPECT_THAT(Refused(With({"--mode", "open"})), HasSubstr("open needs --rate"));
  EXPECT_THAT(Refused(With({"--rate", "5"})), HasSubstr("--rate: is for --mode open"));
  EXPECT_THAT(Refused(With({"--mode", "open", "--rate", "5", "--concurrency", "3"})),
              HasSubstr("--concurrency: is for --mode closed only"));
  EXPECT_THAT(Refused(With({"--ids", "file"})), HasSubstr("--int-ids"));
  EXPECT_THAT(Refused({"--target", "h", "--collection", "c", "--candidates", "inline:3", "--filter", "year >= 2020"}),
              HasSubstr("--filter: is for documents of the collection only"));
  EXPECT_THAT(Refused({"--target", "h", "--collection", "c", "--ids", "f", "--id-prefix", "p"}),
              HasSubstr("--int-ids"));
  EXPECT_THAT(Refused(With({"--queries", "q.npy", "--query-tokens", "8"})), HasSubstr("--queries"));
}

TEST(CommandLineTest, WrongValuesAreNamedWithTheirFlag) {
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{{"--timeout", "5"},
                                                                                    {"--timeout", "0s"},
                                                                                    {"--duration", "0s"},
                                                                                    {"--duration", "5h"},
                                                                                    {"--warmup", "-1s"},
                                                                                    {"--query-tokens", "none"},
                                                                                    {"--zipf", "-1"},
                                                                                    {"--top-k", "0"},
                                                                                    {"--concurrency", "0"},
                                                                                    {"--threads", "0"},
                                                                                    {"--threads", "257"},
                                                                                    {"--channels", "0"},
                                                                                    {"--priority", "urgent"},
                                                                                    {"--queries-per-request", "0"},
                                                                                    {"--mode", "half"},
                                                                                    {"--shared-candidates", "perhaps"},
                                                                                    {"--check", "all"},
                                                                                    {"--int-ids", "0"}}) {
    const std::string error = Refused(With({flag, value}));
    EXPECT_THAT(error, HasSubstr(flag)) << value;
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
  }
  EXPECT_THAT(Refused({"--collection", "c"}), HasSubstr("--target"));
  EXPECT_THAT(Refused(With({"--frobnicate"})), HasSubstr("--frobnicate"));
}

TEST(CommandLineTest, HelpAndVersionAreOutputAndEndWell) {
  for (const char* flag : {"--help", "--version"}) {
    std::ostringstream out, err;
    int exit_code = -1;
    EXPECT_FALSE(ParseCommandLine({flag}, out, err, exit_code).has_value());
    EXPECT_EQ(exit_code, kExitOk);
    EXPECT_EQ(err.str(), "");
    EXPECT_THAT(out.str(), HasSubstr("maxsim"));
  }
}

TEST(CommandLineTest, TheTargetIsAHostAndAPort) {
  const auto with_target = [](const char* target) { return Arguments{"--target", target, "--collection", "docs"}; };
  EXPECT_THAT(Refused(with_target("host:72606")), HasSubstr("--target: \"host:72606\" has port 72606"));
  EXPECT_THAT(Refused(with_target("http://host:7071")), HasSubstr("--target: \"http://host:7071\" is not HOST:PORT"));
  Arguments arguments = with_target("host");
  arguments.insert(arguments.end(), {"--int-ids", "9"});
  EXPECT_EQ(Parsed(arguments).client.target, "host:7070");
}

TEST(CommandLineTest, AnUnknownOptionIsNamedBeforeOneThatIsMissing) {
  EXPECT_EQ(Refused({"--collection", "docs", "--taget", "host:7070"}),
            "maxsim-loadtest: there is no option --taget (see maxsim-loadtest --help)\n");
  EXPECT_EQ(Refused({"--collection", "docs"}), "maxsim-loadtest: --target is required (see maxsim-loadtest --help)\n");
}

}  // namespace
}  // namespace maxsim::loadtest
