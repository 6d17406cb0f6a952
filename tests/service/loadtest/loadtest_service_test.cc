// Runs maxsim-loadtest against a server in this process. The load tester and the server must have counted the same
// calls.
#include "loadtest/loadtest.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/command_line.h"
#include "loadtest/run/server_metrics.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::loadtest {
namespace {

using nlohmann::json;
using test::FakeBackend;
using test::RunningServer;
using testing::ContainsRegex;
using testing::HasSubstr;

class LoadtestServiceTest : public testing::Test {
 protected:
  void Serve(const std::function<void(config::Config*)>& change = nullptr, std::unique_ptr<Backend> backend = nullptr) {
    server_ = std::make_unique<RunningServer>(change, std::move(backend));
  }

  // Runs the load tester with the server's string ids. Stores its JSON in report_.
  int Run(std::vector<std::string> arguments) {
    for (const std::string& flag :
         {std::string("--target"), server_->grpc_address(), std::string("--collection"), std::string("corpus"),
          std::string("--json"), folder_ / "report.json", std::string("--threads"), std::string("2")}) {
      arguments.push_back(flag);
    }
    out_.str("");
    err_.str("");
    const int exit_code = RunLoadtest(arguments, {out_, err_, stop_});
    std::ifstream file(folder_ / "report.json");
    report_ = json::parse(file, nullptr, /*allow_exceptions=*/false);
    return exit_code;
  }

  int RunIds(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"--int-ids", "200", "--id-prefix", "doc-", "--candidates", "50", "--top-k", "10"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(all);
  }

  // Returns how many calls of `method` ended with `code`, by the server's metrics.
  int64_t Counted(const std::string& method, const std::string& code) const {
    const Scrape scrape(server_->server().metrics().Expose());
    return static_cast<int64_t>(
        scrape.WithLabel("maxsim_requests_total", absl::StrCat("code=\"", code, "\",method=\"", method, "\""))
            .value_or(0));
  }

  // Compares the load tester's counts with the server's. The server counts an answer before it sends the answer, so the
  // comparison need not wait. Only the end of a stream may be counted later.
  void ExpectCountsAgree(const std::string& method) const {
    const json& whole = report_["whole_run"];
    EXPECT_EQ(whole["answered"], Counted(method, "OK"));
    EXPECT_EQ(whole["rejected"], Counted(method, "RESOURCE_EXHAUSTED"));
    EXPECT_EQ(whole["sent"].get<int64_t>(),
              whole["answered"].get<int64_t>() + whole["rejected"].get<int64_t>() + whole["errors"].get<int64_t>());
  }

  // A busy machine may be too slow for the load tester to keep up. That is no failure of the test.
  static bool Fine(int exit_code) { return exit_code == kExitOk || exit_code == kExitClientBound; }

  test::TemporaryFolder folder_;
  std::unique_ptr<RunningServer> server_;
  std::atomic<bool> stop_{false};
  std::ostringstream out_, err_;
  json report_;
};

TEST_F(LoadtestServiceTest, AClosedLoopAndTheServerCountTheSame) {
  Serve();
  EXPECT_TRUE(Fine(RunIds({"--concurrency", "4", "--warmup", "300ms", "--duration", "1s"}))) << err_.str();
  ExpectCountsAgree("Rerank");
  EXPECT_GT(report_["requests"], 20);
  EXPECT_LE(report_["requests"], report_["whole_run"]["answered"]);
  EXPECT_EQ(report_["errors"], json::object());
  EXPECT_EQ(report_["rejected"], 0);
  EXPECT_EQ(report_["mode"], "closed");
  EXPECT_GT(report_["latency_us"]["p50"], 0);
  EXPECT_GT(report_["server_us"]["kernel_p50"], 0);
  EXPECT_LE(report_["server_us"]["total_p50"], report_["latency_us"]["p50"]) << "the server's part of the time";
  EXPECT_GT(report_["client_cpu_s"], 0);
  EXPECT_THAT(out_.str(), HasSubstr("closed loop, 4 requests under way"));
  // Fewer than 4 requests may be in flight, because a client may have got an answer and not yet sent its next request.
  EXPECT_THAT(err_.str(), ContainsRegex("in flight [1-4]\n"));
}

TEST_F(LoadtestServiceTest, AnOpenLoopSendsItsRateAndReadsTheServersMetrics) {
  Serve();
  const std::string html = folder_ / "report.html";
  EXPECT_TRUE(Fine(RunIds({"--mode", "open", "--rate", "100", "--arrivals", "fixed", "--warmup", "1s", "--duration",
                           "2s", "--metrics", absl::StrCat("http://127.0.0.1:", server_->http_port(), "/metrics"),
                           "--html", html, "--quiet"})))
      << err_.str();
  ExpectCountsAgree("Rerank");
  EXPECT_EQ(report_["requests"], 200);
  EXPECT_EQ(report_["whole_run"]["answered"], 301);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(report_["series"].size(), 2u);
  ASSERT_GE(report_["server_metrics"].size(), 1u);
  EXPECT_GT(report_["server_metrics"][0]["requests_per_second"], 0);
  EXPECT_GE(report_["server_metrics"][0]["batch_queries_mean"], 1);
  std::stringstream page;
  page << std::ifstream(html).rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("<figcaption>Batch size"));
}

TEST_F(LoadtestServiceTest, StreamsCarryTheSameLoad) {
  Serve();
  EXPECT_TRUE(Fine(RunIds({"--stream", "--concurrency", "6", "--warmup", "200ms", "--duration", "800ms"})))
      << err_.str();
  ExpectCountsAgree("RerankStream");
  EXPECT_GT(report_["requests"], 20);
  EXPECT_EQ(Counted("Rerank", "OK"), 0);
}

TEST_F(LoadtestServiceTest, EveryKindOfRequestIsAnsweredRight) {
  Serve();
  const std::vector<std::string> quick = {"--concurrency", "2", "--warmup", "0", "--duration", "300ms", "--quiet"};
  for (std::vector<std::string> kind : std::vector<std::vector<std::string>>{
           {"--candidates", "all", "--queries-per-request", "3", "--priority", "high"},
           {"--candidates", "inline:9", "--document-tokens", "uniform:2:20", "--dtype", "f32", "--query-tokens", "5"},
           {"--int-ids", "200", "--id-prefix", "doc-", "--candidates", "7", "--queries-per-request", "4",
            "--shared-candidates", "false", "--zipf", "1.1", "--query-tokens", "lognormal:12:4:32"},
       }) {
    kind.insert(kind.end(), quick.begin(), quick.end());
    EXPECT_TRUE(Fine(Run(kind))) << err_.str();
    EXPECT_EQ(report_["errors"], json::object());
    EXPECT_GT(report_["requests"], 0);
    EXPECT_EQ(report_["queries"].get<int>(),
              report_["requests"].get<int>() * report_["queries_per_request"].get<int>());
  }
}

// Returns a backend on which a request takes `duration`. A request is 26 calls, because the collection has 26 shards.
std::unique_ptr<FakeBackend> SlowBackend(absl::Duration duration) {
  auto backend = std::make_unique<FakeBackend>();
  backend->OnTopK([duration](absl::Span<const Query>) {
    absl::SleepFor(duration / 26);
    return absl::OkStatus();
  });
  return backend;
}

TEST_F(LoadtestServiceTest, RejectionsShowAndAreNoErrors) {
  Serve(
      [](config::Config* config) {
        config->engine.num_lanes = 1;
        config->batching.max_queue_jobs = 1;
        config->batching.max_batch_queries = 1;
      },
      SlowBackend(absl::Milliseconds(5)));
  EXPECT_TRUE(Fine(RunIds({"--concurrency", "8", "--warmup", "100ms", "--duration", "500ms"}))) << err_.str();
  ExpectCountsAgree("Rerank");
  EXPECT_GT(report_["rejected"], 0);
  EXPECT_GT(report_["rps"], 0);
  EXPECT_EQ(report_["errors"], json::object());
}

TEST_F(LoadtestServiceTest, ErrorsEndInTheReportAndInTheExitCode) {
  std::atomic<int> calls{0};  // declared first, since it must outlive the server
  auto backend = std::make_unique<FakeBackend>();
  backend->OnTopK([&calls](absl::Span<const Query>) {
    return ++calls % 100 == 0 ? absl::InternalError("a bad call") : absl::OkStatus();
  });
  Serve(nullptr, std::move(backend));
  EXPECT_EQ(RunIds({"--mode", "open", "--rate", "50", "--warmup", "0", "--duration", "1s"}), kExitFailed);
  ExpectCountsAgree("Rerank");
  EXPECT_GT(report_["errors"]["INTERNAL"], 0);
  EXPECT_EQ(report_["whole_run"]["errors"], Counted("Rerank", "INTERNAL"));
  EXPECT_THAT(out_.str(), HasSubstr("a bad call"));
  server_.reset();
}

TEST_F(LoadtestServiceTest, ASweepFindsARateBelowTheServersCapacity) {
  Serve(
      [](config::Config* config) {  // at most 100 requests per second
        config->engine.num_lanes = 1;
        config->batching.max_batch_queries = 1;
      },
      SlowBackend(absl::Milliseconds(10)));
  EXPECT_TRUE(Fine(RunIds({"--sweep", "--target-p99", "200ms", "--timeout", "400ms", "--rate", "20",
                           "--sweep-precision", "1", "--warmup", "200ms", "--duration", "2s"})))
      << err_.str();
  EXPECT_EQ(report_["mode"], "sweep");
  EXPECT_EQ(report_["converged"], true);
  ASSERT_GE(report_["steps"].size(), 2u);
  const json& held = report_["held_rate"];
  ASSERT_TRUE(held.is_number()) << report_.dump(1);
  EXPECT_LE(held, 100);
  bool failed_above = false;
  for (const json& step : report_["steps"]) {
    // In steps above the highest rate that holds, requests may be refused or time out.
    failed_above |= !step["held"] && step["rate"] > held;
  }
  EXPECT_TRUE(failed_above);
  EXPECT_EQ(report_["rate"], held);
  EXPECT_THAT(out_.str(), HasSubstr("hold p99 <= 200ms"));
  EXPECT_LE(report_["whole_run"]["answered"], Counted("Rerank", "OK")) << "some came when their time was over";
}

TEST_F(LoadtestServiceTest, ASweepThatFindsNoRateFails) {
  Serve(nullptr, SlowBackend(absl::Milliseconds(20)));
  EXPECT_EQ(RunIds({"--sweep", "--target-p99", "2ms", "--rate", "40", "--warmup", "0", "--duration", "200ms"}),
            kExitFailed);
  EXPECT_TRUE(report_["held_rate"].is_null());
  EXPECT_EQ(report_["converged"], false);
  EXPECT_THAT(out_.str(), HasSubstr("no rate held the target"));
  EXPECT_EQ(report_["whole_run"]["errors"], 0) << "all answers were right, and slow";
}

TEST_F(LoadtestServiceTest, ASweepThatIsEndedSaysThatItDidNotConverge) {
  Serve();
  // The sweep makes 11 requests up to the end of its first step, and 20 in the second step. So it is stopped in the
  // second step.
  std::atomic<bool> ended = false;
  std::thread stopper([this, &ended] {
    while (!ended && Counted("Rerank", "OK") < 20) absl::SleepFor(absl::Milliseconds(5));
    stop_ = true;
  });
  const int exit_code = RunIds(
      {"--sweep", "--target-p99", "5s", "--rate", "20", "--arrivals", "fixed", "--warmup", "0", "--duration", "500ms"});
  ended = true;
  stopper.join();
  EXPECT_TRUE(Fine(exit_code)) << err_.str();
  ASSERT_GE(report_["steps"].size(), 1u) << out_.str();
  EXPECT_FALSE(report_["held_rate"].is_null());
  EXPECT_EQ(report_["converged"], false);
  EXPECT_EQ(report_["converged_reason"], "the sweep was stopped");
  EXPECT_THAT(out_.str(), HasSubstr("converged     no: the sweep was stopped; a higher rate may hold"));
}

TEST_F(LoadtestServiceTest, ABusyServerIsWaitedForBeforeTheClockStarts) {
  auto backend = std::make_unique<FakeBackend>();
  FakeBackend* const gate = backend.get();
  Serve(
      [](config::Config* config) {
        config->engine.num_lanes = 1;
        config->batching.max_queue_jobs = 1;
      },
      std::move(backend));
  gate->Close();
  const auto send = [this] {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(
        test::MakeRequest("corpus", test::MakeQuery(1, ScalarType::kF16, test::kDim, 2), {"doc-1"}, 5), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  const size_t calls_before = gate->calls().size();
  std::thread in_the_lane(send);
  EXPECT_TRUE(gate->WaitForCalls(calls_before + 1));
  std::thread in_the_queue(send);
  const auto queued = [this] { return server_->server().scheduler().stats().queued_jobs; };
  EXPECT_TRUE(test::Eventually([&] { return queued() == 1; }));
  std::atomic<bool> ended{false};
  std::thread opener([&] {
    while (Counted("Rerank", "RESOURCE_EXHAUSTED") < 2 && !ended) absl::SleepFor(absl::Milliseconds(5));
    gate->Open();
  });
  EXPECT_TRUE(Fine(RunIds({"--concurrency", "1", "--warmup", "0", "--duration", "300ms"}))) << err_.str();
  ended = true;
  for (std::thread* thread : {&in_the_lane, &in_the_queue, &opener}) thread->join();
  EXPECT_THAT(err_.str(), HasSubstr("the server is busy, trying the first request again"));
  EXPECT_GE(report_["whole_run"]["rejected"], 2);
  EXPECT_EQ(report_["whole_run"]["rejected"], Counted("Rerank", "RESOURCE_EXHAUSTED"));
  EXPECT_EQ(report_["rejected"], 0) << "before the clock started";
  EXPECT_GT(report_["requests"], 0);
}

TEST_F(LoadtestServiceTest, PreparingIsEndedToo) {
  Serve();
  stop_ = true;
  EXPECT_EQ(RunIds({"--concurrency", "2"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("CANCELLED: ended when 0 requests were prepared"));
  EXPECT_EQ(Counted("Rerank", "OK"), 0);
}

TEST_F(LoadtestServiceTest, AServerThatWantsACertificateIsShownOne) {
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl program to make certificates";
  const auto file = [this](const std::string& name) { return folder_ / name; };
  for (const char* name : {"server", "client"}) {  // each certificate is self-signed
    const std::string command = absl::StrCat(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=", name,
        " -addext subjectAltName=IP:127.0.0.1 -keyout ", file(absl::StrCat(name, ".key")), " -out ",
        file(absl::StrCat(name, ".pem")), " > /dev/null 2>&1");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  Serve([&](config::Config* config) {
    config->tls.cert_file = file("server.pem");
    config->tls.key_file = file("server.key");
    config->tls.client_ca_file = file("client.pem");
  });
  std::vector<std::string> flags = {"--concurrency", "1",     "--warmup", "0",        "--duration",      "200ms",
                                    "--timeout",     "500ms", "--tls",    "--tls-ca", file("server.pem")};
  EXPECT_EQ(RunIds(flags), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("GetInfo"));
  flags[7] = "20s";
  flags.insert(flags.end(), {"--tls-cert", file("client.pem"), "--tls-key", file("client.key")});
  EXPECT_TRUE(Fine(RunIds(flags))) << err_.str();
  EXPECT_GT(report_["requests"], 0);
}

TEST_F(LoadtestServiceTest, WhatCannotBeRunIsSaidBeforeTheClockStarts) {
  Serve();
  EXPECT_EQ(Run({"--int-ids", "500", "--id-prefix", "doc-", "--candidates", "400"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("the first request, before the measurement"));
  EXPECT_THAT(err_.str(), HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Run({"--int-ids", "200", "--candidates", "5"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("the collection has string ids"));
  EXPECT_EQ(Run({"--candidates", "all", "--metrics", "http://127.0.0.1:1/"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("nothing answers"));
  EXPECT_EQ(Run({"--candidates", "all", "--tls", "--tls-ca", "/no/ca"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("NOT_FOUND: --tls-ca: cannot read '/no/ca': No such file or directory"));
  EXPECT_EQ(Run({"--candidates", "all", "--html", "/nowhere/report"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("--html: cannot write '/nowhere/report'"));
  EXPECT_EQ(Run({"--candidates", "none"}), kExitUsage);
  const std::string address = server_->grpc_address();
  server_->Stop();
  EXPECT_EQ(Run({"--candidates", "all", "--timeout", "300ms"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr(address));
}

TEST_F(LoadtestServiceTest, AStoppedRunStillReports) {
  Serve();
  std::thread stopper([this] {
    absl::SleepFor(absl::Milliseconds(1500));
    stop_ = true;
  });
  const int exit_code = RunIds({"--concurrency", "2", "--warmup", "0", "--duration", "1h"});
  stopper.join();
  EXPECT_TRUE(Fine(exit_code)) << err_.str();
  ExpectCountsAgree("Rerank");
  EXPECT_GT(report_["requests"], 0);
  EXPECT_LT(report_["duration_s"], 60);
  EXPECT_EQ(report_["stable"], false);
}

}  // namespace
}  // namespace maxsim::loadtest
