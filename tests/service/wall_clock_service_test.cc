// Changes the wall clock while the server runs. No deadline may pass early or late, and no duration may be wrong.
//
// This program replaces clock_gettime, also for the C++ library, abseil and gRPC. The replacement shifts the wall clock
// by an amount that the test sets, and no other clock.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"
#include "client/client.h"
#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"

namespace {

std::atomic<int64_t> wall_clock_step_seconds{0};

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto failed = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (failed == 0 && clock == CLOCK_REALTIME) time->tv_sec += wall_clock_step_seconds.load(std::memory_order_relaxed);
  return failed;
}

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;

v1::RerankRequest TwoDocuments() {
  return MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1", "doc-2"}, 5);
}

constexpr char kHttpBody[] = R"({"model": "corpus", "query": [[)"
                             R"(1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]],)"
                             R"("documents": ["doc-1", "doc-2"]})";

// Makes calls of every kind until it is destroyed. Records every error and every wrong answer.
class Callers {
 public:
  explicit Callers(RunningServer& server) : http_port_(server.http_port()) {
    client::ClientOptions options;
    options.target = server.grpc_address();
    options.timeout = absl::FromChrono(kTestLimit);
    client_ = *client::Client::Create(options);
    for (int idx = 0; idx < 3; ++idx) threads_.emplace_back([this] { Repeat([this] { return OverGrpc(); }); });
    threads_.emplace_back([this] { Repeat([this] { return OverHttp(); }); });
  }
  ~Callers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Waits until eight more calls of each kind are answered. At most three of the eight were already running, because
  // three threads make gRPC calls and one makes HTTP calls.
  void WaitForCalls() {
    for (const std::atomic<int>* count : {&num_grpc_, &num_http_}) {
      const int before = *count;
      EXPECT_TRUE(Eventually([&] { return *count >= before + 8; })) << "calls do not come back";
    }
  }

  std::set<std::string> problems() {
    const MutexLock lock(&mutex_);
    return problems_;
  }

 private:
  template <typename Call>
  void Repeat(Call call) {
    while (!stop_) {
      const std::string problem = call();
      if (problem.empty()) continue;
      const MutexLock lock(&mutex_);
      problems_.insert(problem);
    }
  }

  std::string OverGrpc() {
    client::CallOptions once;
    once.max_attempts = 1;
    const auto answer = client_->Rerank(TwoDocuments(), once);
    ++num_grpc_;
    if (!answer.ok()) return answer.status().ToString();
    const v1::Timings& timings = answer->timings();
    for (const double us : {timings.queue_us(), timings.kernel_us(), timings.copy_us(), timings.total_us()}) {
      if (us < 0 || us > 30e6) return absl::StrCat("timings: ", timings.ShortDebugString());
    }
    return "";
  }

  std::string OverHttp() {
    const HttpAnswer answer = HttpPost(http_port_, "/v1/rerank", kHttpBody, "application/json");
    ++num_http_;
    return answer.status == 200 ? "" : absl::StrCat("HTTP ", answer.status, ": ", answer.body);
  }

  const int http_port_;
  std::unique_ptr<client::Client> client_;
  std::atomic<bool> stop_{false};
  std::atomic<int> num_grpc_{0};
  std::atomic<int> num_http_{0};
  Mutex mutex_;
  std::set<std::string> problems_;
  std::vector<std::thread> threads_;
};

// Returns the seconds in the histograms' sums, by the series' names.
std::vector<std::pair<std::string, double>> SumsOfSeconds(const std::string& exposition) {
  std::vector<std::pair<std::string, double>> sums;
  for (const absl::string_view line : absl::StrSplit(exposition, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    double value = 0;
    if (parts.size() == 2 && absl::StrContains(parts[0], "_seconds_sum") && absl::SimpleAtod(parts[1], &value)) {
      sums.emplace_back(parts[0], value);
    }
  }
  return sums;
}

TEST(WallClockServiceTest, StepsOfAnHourChangeNoAnswerAndNoDuration) {
  RunningServer server;
  const auto begin = std::chrono::system_clock::now();
  {
    Callers callers(server);
    callers.WaitForCalls();
    ASSERT_EQ(callers.problems(), std::set<std::string>());
    for (const int64_t step : {3600, -3600, 0}) {
      wall_clock_step_seconds = step;
      callers.WaitForCalls();
    }
    EXPECT_EQ(callers.problems(), std::set<std::string>());
    wall_clock_step_seconds = 7200;
    EXPECT_GT(std::chrono::system_clock::now() - begin, 1h) << "the library does not call this program's clock";
    wall_clock_step_seconds = 0;
  }
  const auto sums = SumsOfSeconds(HttpGet(server.http_port(), "/metrics").body);
  EXPECT_GE(sums.size(), 4u);
  for (const auto& [name, seconds] : sums) {
    EXPECT_GE(seconds, 0) << name;
    EXPECT_LT(seconds, 600) << name;
  }
}

}  // namespace
}  // namespace maxsim::test
