// Tests the HTTP transport against a TLS server in this process: which certificates it accepts, and how it handles
// broken connections.
#include "backup/s3/http_transport.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "tests/support/connections/certificates.h"
#include "tests/support/values/eventually.h"

namespace maxsim::backup {
namespace {

using ::testing::HasSubstr;

constexpr int kConnections = 4;

// Counts the connections that the server has closed: each is one task.
class CountingQueue final : public httplib::TaskQueue {
 public:
  explicit CountingQueue(std::atomic<int>* num_closed) : num_closed_(*num_closed) {}

  void enqueue(std::function<void()> task) override {
    threads_.enqueue([this, task = std::move(task)] {
      task();
      ++num_closed_;
    });
  }
  void shutdown() override { threads_.shutdown(); }

 private:
  std::atomic<int>& num_closed_;
  httplib::ThreadPool threads_{2 * kConnections};
};

class HttpTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    const test::CertifiedKey own = test::MakeCertificate("store.test");
    std::ofstream(ca_file_) << own.certificate;
    std::ofstream(folder_ + "/key.pem") << own.key;
    std::ofstream(folder_ + "/other.pem") << test::MakeCertificate("other.test").certificate;
    server_ = std::make_unique<httplib::SSLServer>(ca_file_.c_str(), (folder_ + "/key.pem").c_str());
    server_->set_read_timeout(600);  // seconds; also of a handshake
    server_->set_write_timeout(600);
    server_->new_task_queue = [this] { return new CountingQueue(&num_closed_); };
    server_->Get("/ten-bytes", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("0123456789", "text/plain");
    });
  }

  // Call this after the handlers are set.
  void Start() {
    port_ = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
  }

  void TearDown() override {
    if (thread_.joinable()) {
      EXPECT_TRUE(test::Eventually([this] { return server_->is_running(); }));
      server_->stop();
      thread_.join();
    }
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<HttpTransport> TransportTo(const std::string& host, const std::string& ca_file) {
    return MakeHttpTransport("https://" + host + ":" + std::to_string(port_), ca_file);
  }

  static absl::StatusOr<HttpResponse> Get(HttpTransport& transport, const std::string& target,
                                          size_t max_response_bytes = 1000) {
    return transport.Send({.method = "GET", .target = target, .max_response_bytes = max_response_bytes});
  }

  const std::string folder_ = ::testing::TempDir() + "/maxsim_transport_" + std::to_string(getpid());
  const std::string ca_file_ = folder_ + "/cert.pem";
  std::atomic<int> num_closed_{0};
  std::unique_ptr<httplib::SSLServer> server_;
  std::thread thread_;
  int port_ = 0;
};

TEST_F(HttpTransportTest, OnlyTrustedCertificatesOfTheHostAreAccepted) {
  Start();
  const auto answer = Get(*TransportTo("127.0.0.1", ca_file_), "/ten-bytes");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "0123456789");
  EXPECT_EQ(answer->headers.at("content-type"), "text/plain");
  // The certificate is for 127.0.0.1 and store.test.
  for (const auto& [host, ca_file] : std::vector<std::pair<std::string, std::string>>{
           {"localhost", ca_file_}, {"127.0.0.1", folder_ + "/other.pem"}, {"127.0.0.1", ""}}) {
    const absl::Status status = Get(*TransportTo(host, ca_file), "/ten-bytes").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << host << " " << ca_file << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("its certificate is not trusted, or is for another name"));
  }
  const absl::Status missing = Get(*TransportTo("127.0.0.1", folder_ + "/none.pem"), "/ten-bytes").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("AWS_CA_BUNDLE: no certificates could be read"));
}

TEST_F(HttpTransportTest, AnAnswerBeyondTheLimitIsNotTaken) {
  Start();
  const auto transport = TransportTo("127.0.0.1", ca_file_);
  EXPECT_EQ(Get(*transport, "/ten-bytes", 9).status().code(), absl::StatusCode::kDataLoss);
  const auto answer = Get(*transport, "/ten-bytes", 10);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "0123456789");
}

TEST_F(HttpTransportTest, AnAnswerThatIsCutIsNoAnswer) {
  server_->Get("/cut", [](const httplib::Request&, httplib::Response& response) {
    response.set_content_provider(10, "text/plain", [](size_t offset, size_t, httplib::DataSink& sink) {
      return offset == 0 && sink.write("01234", 5);
    });
  });
  Start();
  const auto transport = TransportTo("127.0.0.1", ca_file_);
  EXPECT_EQ(Get(*transport, "/cut").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Get(*transport, "/ten-bytes").ok());
}

TEST_F(HttpTransportTest, ARequestArrivesAsItIs) {
  Mutex mutex;
  std::string target, body, length, header;
  server_->Put(".*", [&](const httplib::Request& request, httplib::Response&) {
    const MutexLock lock(&mutex);
    target = request.target;
    body = request.body;
    length = request.get_header_value("Content-Length");
    header = request.get_header_value("x-amz-date");
  });
  Start();
  const auto transport = TransportTo("127.0.0.1", ca_file_);
  std::string sent(3'000'000, '\0');  // many records of TLS
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * i / 7);
  for (const std::string& bytes : {sent, std::string()}) {
    const auto answer = transport->Send({.method = "PUT",
                                         .target = "/bucket/a%2Bb?uploadId=x%2F1",
                                         .headers = {{"x-amz-date", "now"}},
                                         .body = bytes,
                                         .max_response_bytes = 1000});
    ASSERT_TRUE(answer.ok()) << answer.status();
    const MutexLock lock(&mutex);
    EXPECT_EQ(target, "/bucket/a%2Bb?uploadId=x%2F1");
    EXPECT_EQ(header, "now");
    EXPECT_EQ(length, std::to_string(bytes.size()));
    EXPECT_TRUE(body == bytes) << body.size();
  }
}

TEST_F(HttpTransportTest, OneFailureDropsAllConnectionsThatTheServerHasClosed) {
  std::latch all_are_in(kConnections);
  server_->Get("/together", [&](const httplib::Request&, httplib::Response&) { all_are_in.arrive_and_wait(); });
  server_->set_keep_alive_timeout(1);  // seconds
  Start();
  const auto transport = TransportTo("127.0.0.1", ca_file_);
  std::vector<std::thread> threads;
  for (int i = 0; i < kConnections; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(Get(*transport, "/together").ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(test::Eventually([this] { return num_closed_ == kConnections; }));
  const absl::Status first = Get(*transport, "/ten-bytes").status();
  EXPECT_TRUE(first.ok() || absl::IsUnavailable(first)) << first;
  const absl::Status second = Get(*transport, "/ten-bytes").status();
  EXPECT_TRUE(second.ok()) << second;
}

}  // namespace
}  // namespace maxsim::backup
