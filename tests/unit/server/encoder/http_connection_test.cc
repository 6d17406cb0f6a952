// Tests a connection to an encoder. The test acts as the encoder on the same thread. So it decides the order of sends,
// receives and the end of the time limit.
#include "server/encoder/http_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "base/monotonic_clock.h"

namespace maxsim::encoder {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;
using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Milliseconds(300);
constexpr uint64_t kMaxAnswerBytes = uint64_t{1} << 30;

class HttpConnectionTest : public testing::Test {
 protected:
  HttpConnectionTest() : acceptor_(far_loop_, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)), far_end_(far_loop_) {
    acceptor_.non_blocking(true);
    peer_.url.host = "127.0.0.1";
    peer_.url.port = std::to_string(acceptor_.local_endpoint().port());
    connection_ = std::make_shared<HttpConnection>(&loop_, &peer_);
  }
  ~HttpConnectionTest() override {
    connection_->Close();
    RunToTheEnd();
  }

  void Send(absl::Duration timeout = kTimeout, std::string body = "{}") {
    end_ = MonotonicNow() + timeout;
    connection_->Send({.path = "/pooling", .body = std::move(body)}, timeout, kMaxAnswerBytes,
                      [this](HttpOutcome outcome) { outcomes_.push_back(std::move(outcome)); });
  }

  // Runs the event loop until `condition` holds or a call has ended.
  template <typename Condition>
  void RunUntil(Condition condition) {
    const size_t num_outcomes = outcomes_.size();
    while (!condition() && outcomes_.size() == num_outcomes) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(1));
    }
  }
  void RunToTheEnd() {
    loop_.restart();
    loop_.run();
  }

  // Runs the event loop until the request has arrived at the encoder's end of the connection.
  void AwaitRequest() {
    RunUntil([this] {
      Error error;
      if (!far_end_.is_open()) acceptor_.accept(far_end_, error);
      return far_end_.is_open() && far_end_.available() > 0;
    });
  }
  void TakeRequest() {
    AwaitRequest();
    std::string request(far_end_.available(), ' ');
    far_end_.receive(asio::buffer(request));
  }

  // Sends bytes to the connection. Its socket is a loopback socket, so the connection can read the bytes at once.
  void Answer(const std::string& bytes) { asio::write(far_end_, asio::buffer(bytes)); }

  // Lets the time limit pass without running the event loop, so the connection cannot have noticed it yet.
  void LetTimePass() {
    while (MonotonicNow() <= end_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void ExpectTimeout() {
    ASSERT_EQ(outcomes_.size(), 1u);
    EXPECT_TRUE(outcomes_[0].timed_out);
    EXPECT_THAT(outcomes_[0].error.message(), HasSubstr("no answer within"));
    EXPECT_FALSE(connection_->IsUsable());
  }

  HttpPeer peer_;
  asio::io_context loop_{1};
  asio::io_context far_loop_{1};
  Tcp::acceptor acceptor_;
  Tcp::socket far_end_;
  std::shared_ptr<HttpConnection> connection_;
  std::vector<HttpOutcome> outcomes_;
  absl::Time end_;
};

// In each of these tests, more bytes are available than one read takes. So the event loop notices the time limit after
// a read has completed, but before its handler has run.
TEST_F(HttpConnectionTest, ATimeoutWithinAHeader) {
  Send();
  TakeRequest();
  Answer("HTTP/1.1 200 OK\r\nA: " + std::string(8000, 'a'));
  LetTimePass();
  RunToTheEnd();
  ExpectTimeout();
}

TEST_F(HttpConnectionTest, ATimeoutWithinABody) {
  Send();
  TakeRequest();
  Answer("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + std::string(100000, 'x'));
  LetTimePass();
  RunToTheEnd();
  ExpectTimeout();
}

TEST_F(HttpConnectionTest, ATimeoutWithinChunks) {
  Send();
  TakeRequest();
  std::string answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int idx = 0; idx < 100; ++idx) answer += "400\r\n" + std::string(1024, 'x') + "\r\n";
  Answer(answer);
  LetTimePass();
  RunToTheEnd();
  ExpectTimeout();
}

TEST_F(HttpConnectionTest, ATimeoutWhileTheRequestIsSent) {
  Send(kTimeout, std::string(size_t{64} << 20, 'x'));
  AwaitRequest();
  // The sockets' buffers are full. Once the encoder's end reads some bytes, the connection can write again.
  std::string some(size_t{8} << 20, ' ');
  RunUntil([&] { return loop_.poll() == 0; });
  far_end_.receive(asio::buffer(some));
  LetTimePass();
  RunToTheEnd();
  ExpectTimeout();
}

TEST_F(HttpConnectionTest, ACloseWithinAnAnswer) {
  Send();
  TakeRequest();
  Answer("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + std::string(100000, 'x'));
  loop_.run_one();
  connection_->Close();
  RunToTheEnd();
  EXPECT_TRUE(outcomes_.empty());
}

TEST_F(HttpConnectionTest, AnInterimAnswerIsNotTheAnswer) {
  Send(absl::Seconds(60));
  TakeRequest();
  Answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n");
  Answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
  RunUntil([] { return false; });
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].status, 200u);
  EXPECT_EQ(outcomes_[0].body, "one");
  EXPECT_TRUE(connection_->IsUsable());
}

TEST_F(HttpConnectionTest, ChunksMayComeByteByByte) {
  Send(absl::Seconds(60));
  TakeRequest();
  const std::string answer =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\none\r\n0\r\nTrailer: x\r\n\r\n";
  for (const char byte : answer) {
    Answer(std::string(1, byte));
    loop_.restart();
    loop_.poll();
  }
  RunUntil([this] { return !outcomes_.empty(); });
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].body, "one");
  EXPECT_TRUE(connection_->IsUsable());
}

TEST_F(HttpConnectionTest, ALastChunkMayBeCutAnywhere) {
  Send(absl::Seconds(60));
  TakeRequest();
  Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
  for (const std::string piece : {"", "\r", "\n"}) {
    for (int turn = 0; turn < 10; ++turn) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(1));
    }
    if (!piece.empty()) Answer(piece);
  }
  RunUntil([this] { return !outcomes_.empty(); });
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].body, "");
}

TEST_F(HttpConnectionTest, AChunksLineWithoutAnEndIsNotReadOn) {
  Send(absl::Seconds(60));
  TakeRequest();
  Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;" + std::string(100000, 'a'));
  RunUntil([] { return false; });
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_THAT(outcomes_[0].error.message(), HasSubstr("cut off or not HTTP"));
}

TEST_F(HttpConnectionTest, AConnectionThatSwitchesProtocolsIsNotUsedAgain) {
  Send(absl::Seconds(60));
  TakeRequest();
  Answer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n");
  RunUntil([] { return false; });
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].status, 101u);
  EXPECT_FALSE(connection_->IsUsable());
}

TEST_F(HttpConnectionTest, AConnectionThatEndsAfterAnInterimAnswerIsNotStale) {
  Send(absl::Seconds(60));
  TakeRequest();
  Answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
  RunUntil([] { return false; });
  ASSERT_EQ(outcomes_.size(), 1u);
  Send(absl::Seconds(60));
  TakeRequest();
  Answer("HTTP/1.1 100 Continue\r\n\r\n");
  far_end_.close();
  RunUntil([] { return false; });
  ASSERT_EQ(outcomes_.size(), 2u);
  EXPECT_FALSE(outcomes_[1].was_stale);
  EXPECT_THAT(outcomes_[1].error.message(), HasSubstr("cut off"));
}

}  // namespace
}  // namespace maxsim::encoder
