// Tests the HTTP transport when allocations fail: either the large allocations for bodies, or random ones.
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/http/transport/transport.h"
#include "server/tls/tls_certificates.h"
#include "tests/support/connections/certificates.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/connections/tls_connection.h"
#include "tests/support/values/eventually.h"

namespace {

constexpr size_t kAnySize = ~size_t{0};

std::atomic<size_t> largest{kAnySize};  // in bytes; larger allocations fail
// One in this many allocations of the transport's thread fails at random. 0: none fails.
std::atomic<uint32_t> fails_one_in{0};
std::atomic<uint32_t> num_failed{0};

bool IsTransportThread() {
  static thread_local const bool is_transport = [] {
    char name[16] = {};
    prctl(PR_GET_NAME, name);
    return std::strcmp(name, "http") == 0;
  }();
  return is_transport;
}

bool Fails(size_t size) {
  if (size > largest) return true;
  const uint32_t one_in = fails_one_in;
  if (one_in == 0 || !IsTransportThread()) return false;
  static thread_local uint32_t state = 12345;
  state = state * 1664525 + 1013904223;
  return (state >> 8) % one_in == 0;
}

}  // namespace

// These operators replace those of the whole program.
void* operator new(size_t size) {
  void* const memory = Fails(size) ? nullptr : std::malloc(size);
  if (memory != nullptr) return memory;
  ++num_failed;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace maxsim::http {
namespace {

using test::RawConnection;
using test::TlsConnection;
using testing::HasSubstr;
using testing::StartsWith;

// Echoes bodies, from another thread.
class EchoApplication final : public Application {
 public:
  ~EchoApplication() override {
    for (std::thread& thread : threads_) thread.join();
  }

  std::optional<Response> Begin(const Request& request) override {
    if (request.method == "POST") return std::nullopt;
    return Response{.content_type = "text/plain", .body = request.path};
  }
  void Handle(Request request, Reply reply) override {
    threads_.emplace_back([request = std::move(request), reply = std::move(reply)]() mutable {
      reply({.content_type = "text/plain", .body = std::move(request.body)});
    });
  }
  Response Refuse(const Request& request, int status, const absl::Status& why) override {
    return {.status = status, .content_type = "text/plain", .body = std::string(why.message())};
  }

 private:
  std::vector<std::thread> threads_;
};

class HttpMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<int> port = transport_.Start();
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }
  void TearDown() override {
    fails_one_in = 0;
    largest = kAnySize;
  }

  static std::string Post(size_t bytes) {
    return absl::StrCat("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: ", bytes, "\r\n\r\n", std::string(bytes, 'b'));
  }

  // Serves connections while allocations fail at random. Afterwards the transport must still accept connections, and
  // every request slot must be free again.
  template <typename Connection>
  void ServeThroughFailures() {
    int good = 0;
    for (const uint32_t one_in : {3, 10, 30, 100}) {
      for (int i = 0; i < 60; ++i) {
        // Every second connection is made while allocations fail, so that TLS handshakes fail, too.
        fails_one_in = i % 2 == 0 ? 0 : one_in;
        Connection connection(port_);
        fails_one_in = one_in;
        connection.Send(Post(30'000));
        const std::string answer = connection.ReadAnswers(1, std::chrono::milliseconds(300));
        fails_one_in = 0;
        if (answer.substr(0, 12) == "HTTP/1.1 200") ++good;
      }
    }
    EXPECT_GE(good, 1);
    EXPECT_GE(num_failed, 50u);
    // There are four request slots. Connections of the loop above may still hold some of them until their time limit,
    // so the test tries again until it has all four.
    std::vector<std::unique_ptr<Connection>> connections;
    for (const auto end = std::chrono::steady_clock::now() + test::kTestLimit;
         connections.size() < 4 && std::chrono::steady_clock::now() < end;) {
      connections.push_back(std::make_unique<Connection>(port_));
      connections.back()->Send("POST /b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
      if (connections.back()->ReadAnswers(1).substr(0, 13) != "HTTP/1.1 100 ") connections.clear();
    }
    EXPECT_EQ(connections.size(), 4u) << "places for requests are lost";
    for (const auto& connection : connections) {
      connection->Send("b");
      EXPECT_THAT(connection->ReadAnswers(1), StartsWith("HTTP/1.1 200 "));
    }
  }

  // Returns certificates that have been loaded.
  static std::unique_ptr<TlsCertificates> LoadCertificates() {
    char folder[] = "/tmp/maxsim_http_memory_XXXXXX";
    if (mkdtemp(folder) == nullptr) return nullptr;
    const std::string path = folder;
    const test::CertifiedKey key = test::MakeCertificate("server");
    std::ofstream(path + "/server.pem") << key.certificate;
    std::ofstream(path + "/server.key") << key.key;
    auto certificates =
        std::make_unique<TlsCertificates>(TlsFiles{path + "/server.pem", path + "/server.key", /*client_ca_file=*/""});
    EXPECT_TRUE(certificates->Load().ok());
    std::filesystem::remove_all(path);
    return certificates;
  }

  EchoApplication application_;
  const std::unique_ptr<TlsCertificates> certificates_ = LoadCertificates();
  // If an allocation fails inside a library, the library's operation may never end. One of these time limits then ends
  // the connection.
  Transport transport_{{.host = "127.0.0.1",
                        .max_requests = 4,
                        .certificates = certificates_.get(),
                        .handshake_timeout = absl::Seconds(2),
                        .body_timeout = absl::Seconds(2),
                        .write_timeout = absl::Seconds(2)},
                       &application_};
  int port_ = 0;
};

TEST_F(HttpMemoryTest, ABodyThatThereIsNoMemoryForIsRefused) {
  const std::string large = Post(1'000'000);
  largest = 500'000;
  RawConnection connection(port_);
  connection.Send(large);
  bool closed = false;
  const std::string answer = connection.ReadToEnd(&closed);
  largest = kAnySize;
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("no memory for the request"));
  EXPECT_TRUE(closed);
  RawConnection next(port_);
  next.Send(large);
  EXPECT_THAT(next.ReadAnswers(1), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpMemoryTest, AFailedAllocationCostsOneConnectionAtMost) { ServeThroughFailures<RawConnection>(); }

TEST_F(HttpMemoryTest, AFailedAllocationCostsOneTlsConnectionAtMost) {
  std::signal(SIGPIPE, SIG_IGN);  // of the clients
  ServeThroughFailures<TlsConnection>();
}

}  // namespace
}  // namespace maxsim::http
