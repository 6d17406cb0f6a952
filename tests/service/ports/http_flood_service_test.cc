// Sends probes (GET /livez) to the HTTP port while other connections flood it. Probes have the same address as the
// flood, because a kubelet may share its address with many clients.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/connections/tls_connection.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr char kPost[] = "POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";

class HttpFloodTest : public testing::Test {
 protected:
  static constexpr int kThreads = 3;
  static constexpr auto kDuration = 700ms;

  // Sends probes while several threads call `flood` again and again. Each probe must be answered in time. Tries up to
  // three times, because the machine may be busy.
  void ProbeDuring(const std::function<void(int thread)>& flood) {
    const double limit = kSanitized ? 5 : 2;
    double seconds = limit;
    for (int round = 0; round < 3 && seconds >= limit; ++round) seconds = LongestProbeDuring(flood);
    EXPECT_LT(seconds, limit);
  }

  // Makes further probes, through TLS. Only the tests that flood a port with certificates set it.
  std::function<void()> probe_more_;

  double LongestProbeDuring(const std::function<void(int thread)>& flood) {
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        while (!over) flood(t);
      });
    }
    std::this_thread::sleep_for(200ms);
    const Clock::time_point end = Clock::now() + kDuration;
    int probes = 0;
    int unanswered = 0;
    Clock::duration longest{};
    while (Clock::now() < end) {
      for (const char* path : {"/livez", "/readyz", "/metrics"}) {
        const Clock::time_point begin = Clock::now();
        unanswered += Probe(path);
        longest = std::max(longest, Clock::now() - begin);
        ++probes;
      }
      const Clock::time_point begin = Clock::now();
      if (probe_more_ != nullptr) probe_more_();
      longest = std::max(longest, Clock::now() - begin);
      // Without a pause, a fast machine would run out of ports, because every probe occupies a client port for a
      // minute.
      std::this_thread::sleep_for(2ms);
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(longest).count();
    std::printf("%d probes, %d of them once more, the longest took %.3f s\n", probes, unanswered, seconds);
    EXPECT_LE(unanswered, probes / 4);
    return seconds;
  }

  // Sends a probe, and a second one if it gets no answer, as an orchestrator does. The first may fail if its thread is
  // suspended between connecting and sending: then the server closes it as an idle connection of the flood's address.
  // Returns 1 if the first probe got no answer, otherwise 0.
  int Probe(const char* path) {
    const HttpAnswer first = HttpGet(server_.http_port(), path);
    if (first.status == 200) return 0;
    EXPECT_EQ(first.status, -1) << path << ": " << first.body;
    const HttpAnswer second = HttpGet(server_.http_port(), path);
    EXPECT_EQ(second.status, 200) << path << ": " << second.body;
    return 1;
  }

  // Opens `count` connections from the address `from`. Each sends `start`, then a single byte now and then.
  void Drip(uint32_t from, size_t count, const std::string& start) {
    std::vector<RawConnection> connections;
    for (size_t i = 0; i < count; ++i) {
      connections.emplace_back(server_.http_port(), from);
      connections.back().Send(start);
    }
    for (int turn = 0; turn < 10; ++turn) {
      for (RawConnection& connection : connections) connection.Send("x");
      std::this_thread::sleep_for(10ms);
    }
  }

  static void Configure(config::Config* config) { config->http.max_concurrent_requests = 16; }

  explicit HttpFloodTest(const std::function<void(config::Config*)>& configure = Configure) : server_(configure) {}

  RunningServer server_;
};

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughAFloodOfConnections) {
  ProbeDuring([this](int) { RawConnection connection(server_.http_port()); });
}

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughAFloodOfConnectionsThatStay) {
  ProbeDuring([this](int thread) {
    std::vector<RawConnection> open;
    for (int i = 0; i < 250; ++i) open.emplace_back(server_.http_port(), 2 + static_cast<uint32_t>(thread));
  });
}

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughConnectionsFromManyAddresses) {
  ProbeDuring([this](int thread) {
    std::vector<RawConnection> open;
    for (uint32_t i = 0; i < 250; ++i) {
      open.emplace_back(server_.http_port(), 2 + i % 80 + 80 * static_cast<uint32_t>(thread));
    }
  });
}

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughHeadersThatDrip) {
  ProbeDuring([this](int thread) { Drip(1 + static_cast<uint32_t>(thread), 150, "GET /livez HTTP/1.1\r\nX: "); });
}

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughBodiesThatDrip) {
  for (const char* path : {"/v1/rerank", "/text/v2/rerank", "/text/rerank", "/v1/explain"}) {
    SCOPED_TRACE(path);
    const std::string begin = absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    ProbeDuring([&](int thread) { Drip(1 + static_cast<uint32_t>(thread), 50, begin); });
  }
}

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughHostileBodies) {
  std::string body = "[";
  while (body.size() < 1'000'000) body += "{},";
  body.resize(1'000'000, ' ');
  ProbeDuring([&](int) {
    RawConnection connection(server_.http_port());
    connection.Send(kPost + body);
    connection.ReadAnswers(1, 5s);
  });
}

TEST_F(HttpFloodTest, ProbesAreAnsweredThroughAFloodOfScrapes) {
  const std::string scrape = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  ProbeDuring([&](int) {
    std::vector<RawConnection> connections;
    // So few connections stay within the limit per address, even while the server still closes those of the previous
    // round.
    for (int i = 0; i < 40; ++i) {
      connections.emplace_back(server_.http_port());
      connections.back().ResetOnClose();
    }
    for (RawConnection& connection : connections) connection.Send(scrape + scrape + scrape);
    for (RawConnection& connection : connections) connection.ReadAnswers(3, 5s);
  });
}

TEST_F(HttpFloodTest, AFloodFromOneAddressClosesNoConnectionOfAnother) {
  RawConnection quiet(server_.http_port(), 9);
  {
    std::vector<RawConnection> open;
    for (int i = 0; i < 400; ++i) open.emplace_back(server_.http_port());
  }
  quiet.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(quiet.ReadAnswers(1), testing::HasSubstr("\nmaxsim_http_connections "));
}

// Writes certificates before the server starts. Their kind of key is the one with which signing takes longest.
class CertificateFiles {
 protected:
  CertificateFiles() {
    const CertifiedKey key = MakeCertificate("server", KeyKind::kRsa2048);
    WriteFile(folder_ / "server.pem", key.certificate);
    WriteFile(folder_ / "server.key", key.key);
  }

  TemporaryFolder folder_;
};

// Floods a port that has certificates. Plain-text probes come from an address of the flood. Probes through TLS come
// from another address, because a TLS handshake takes as long as many connections, so the flood leaves no time for
// handshakes of its own address.
class HttpTlsFloodTest : private CertificateFiles, public HttpFloodTest {
 protected:
  HttpTlsFloodTest()
      : HttpFloodTest([this](config::Config* config) {
          Configure(config);
          config->tls.cert_file = folder_ / "server.pem";
          config->tls.key_file = folder_ / "server.key";
        }) {
    std::signal(SIGPIPE, SIG_IGN);  // the clients write to connections that the server has closed
    probe_more_ = [this] { ProbeThroughTls(); };
  }

  void ProbeThroughTls() {
    TlsConnection connection(server_.http_port(), {}, 250);
    connection.Send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(connection.ReadAnswers(1), testing::StartsWith("HTTP/1.1 200 "));
  }
};

TEST_F(HttpTlsFloodTest, ProbesAreAnsweredThroughAFloodOfHandshakes) {
  ProbeDuring([this](int) { TlsConnection connection(server_.http_port()); });
}

TEST_F(HttpTlsFloodTest, ProbesAreAnsweredThroughHandshakesThatAreBegunAndLeft) {
  const std::string hello = ClientHello();
  ProbeDuring([&](int thread) {
    std::vector<RawConnection> open;
    for (uint32_t i = 0; i < 250; ++i) {
      open.emplace_back(server_.http_port(), 2 + static_cast<uint32_t>(thread));
      open.back().Send(hello);
    }
  });
}

TEST_F(HttpTlsFloodTest, ProbesAreAnsweredThroughHandshakesFromManyAddresses) {
  const std::string hello = ClientHello();
  ProbeDuring([&](int thread) {
    std::vector<RawConnection> open;
    for (uint32_t i = 0; i < 250; ++i) {
      open.emplace_back(server_.http_port(), 2 + i % 80 + 80 * static_cast<uint32_t>(thread));
      open.back().Send(hello);
    }
  });
}

TEST_F(HttpTlsFloodTest, ProbesAreAnsweredThroughHandshakesThatDrip) {
  const std::string begin = ClientHello().substr(0, 50);
  ProbeDuring([&](int thread) { Drip(1 + static_cast<uint32_t>(thread), 150, begin); });
}

}  // namespace
}  // namespace maxsim::test
