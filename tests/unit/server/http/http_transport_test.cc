// Tests connections, framing, limits and time limits of the HTTP port. The application behaves as each test says.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/http/transport/transport.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/http/echo_application.h"
#include "tests/unit/server/http/http_transport_fixture.h"

namespace maxsim::http {
namespace {

using namespace std::chrono_literals;
using test::RawConnection;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Clock = std::chrono::steady_clock;

TEST_F(HttpTransportTest, AConnectionServesManyRequestsInOrder) {
  Serve();
  RawConnection connection(port_);
  // All requests are sent at once. The answers must come in the same order.
  connection.Send(Get("/a?query=1") + Post("/b", "body of b") + Post("/empty", "") + Get("/c"));
  const std::string text = connection.ReadAnswers(4);
  EXPECT_THAT(text, testing::MatchesRegex("HTTP/1.1 200 .*\r\n\r\n/aHTTP/1.1 200 .*\r\n\r\nbody of bHTTP/1.1 200 "
                                          ".*Content-Length: 0.*\r\n\r\nHTTP/1.1 200 .*\r\n\r\n/c"));
  EXPECT_THAT(application_.begun(), ElementsAre("GET /a", "POST /b", "POST /empty", "GET /c"));
  // Requests that come one after another are served too.
  for (int i = 0; i < 100; ++i) {
    connection.Send(Post("/b", absl::StrCat("number ", i)));
    EXPECT_THAT(connection.ReadAnswers(1), HasSubstr(absl::StrCat("\r\n\r\nnumber ", i)));
  }
}

TEST_F(HttpTransportTest, BodiesMayComeInChunksAndAfterAContinue) {
  Serve();
  RawConnection connection(port_);
  connection.Send(
      "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(connection.ReadAnswers(1), HasSubstr("\r\n\r\nabcde"));
  connection.Send("POST /b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(connection.ReadAnswers(1), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.Send("xyz");
  EXPECT_THAT(connection.ReadAnswers(1), HasSubstr("\r\n\r\nxyz"));
  // If the server refuses the request because of its header, it must not ask the client to send the body.
  connection.Send("POST /b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100001\r\n\r\n");
  EXPECT_THAT(connection.ReadAnswers(1), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpTransportTest, TheClientDecidesWhetherTheConnectionStays) {
  Serve();
  EXPECT_THAT(Exchange("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(Exchange("GET /a HTTP/1.0\r\n\r\n"), testing::EndsWith("\r\n\r\n/a"));
  RawConnection head(port_);
  head.Send("HEAD /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  bool closed = false;
  const std::string text = head.ReadToEnd(&closed);
  EXPECT_THAT(text, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(text, testing::EndsWith("\r\n\r\n"));
}

// The bytes after a refused header are its body, and must not be read as a request, even if they look like one.
TEST_F(HttpTransportTest, ARefusedBodyIsNeverTakenForARequest) {
  Serve();
  std::string smuggled;
  while (smuggled.size() < 200'000) smuggled += Get("/smuggled");
  EXPECT_THAT(Exchange(Post("/b", smuggled)), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Exchange(Post("/closed-to-you", smuggled)), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Exchange(absl::StrCat("GET /with-a-body HTTP/1.1\r\nHost: x\r\nContent-Length: ", smuggled.size(),
                                    "\r\n\r\n", smuggled)),
              StartsWith("HTTP/1.1 200 "));
  // This body comes in chunks, so the server finds out that it is too large only while it reads it.
  std::string chunks = "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&chunks, "2710\r\n", smuggled.substr(0, 10'000), "\r\n");
  EXPECT_THAT(Exchange(chunks + "0\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(application_.begun(), ElementsAre("POST /b", "POST /closed-to-you", "GET /with-a-body", "POST /b"));
}

TEST_F(HttpTransportTest, AClientThatIsStillSendingReadsWhyItWasRefused) {
  Serve({.linger_timeout = absl::FromChrono(test::kTestLimit)});
  RawConnection connection(port_);
  connection.Send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
  // The body is larger than the buffers of the sockets. The server reads some of it, so that the client can send on
  // and then read the refusal.
  std::string piece;
  while (piece.size() < 100'000) piece += Get("/smuggled");
  for (size_t sent = 0; sent < 20'000'000; sent += piece.size()) ASSERT_TRUE(connection.Send(piece));
  bool closed = false;
  const std::string text = connection.ReadToEnd(&closed);
  EXPECT_TRUE(closed);
  EXPECT_THAT(text, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(text, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(text, HasSubstr("the body has 100000000 bytes, more than the limit 100000"));
  EXPECT_THAT(application_.begun(), ElementsAre("POST /b"));
}

TEST_F(HttpTransportTest, ARefusalWithoutABodyKeepsTheConnection) {
  Serve();
  RawConnection connection(port_);
  connection.Send(Post("/closed-to-you", "") + Get("/a"));
  EXPECT_THAT(connection.ReadAnswers(2), HasSubstr("\r\n\r\n/a"));
}

// If two programs could see the end of a request in different places, the request must be refused.
TEST_F(HttpTransportTest, AmbiguousFramingIsRefused) {
  Serve();
  const std::string tail = "\r\n0\r\n\r\n" + Get("/smuggled");
  for (const std::string& headers : {std::string("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
                                     std::string("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
                                     std::string("Content-Length: 5\r\nContent-Length: 6\r\n"),
                                     std::string("Content-Length: 5\r\nContent-Length: 5\r\n"),
                                     std::string("Content-Length: 5, 5\r\n"),
                                     std::string("Content-Length: 5x\r\n"),
                                     std::string("Content-Length: -5\r\n"),
                                     std::string("Content-Length: +5\r\n"),
                                     std::string("Content-Length: 0x5\r\n"),
                                     std::string("Content-Length: 99999999999999999999\r\n"),
                                     std::string("Content-Length : 5\r\n"),
                                     std::string("Transfer-Encoding: gzip, chunked\r\n"),
                                     std::string("Transfer-Encoding: chunked, gzip\r\n"),
                                     std::string("Transfer-Encoding: chunked, chunked\r\n"),
                                     std::string("Transfer-Encoding: identity\r\n"),
                                     std::string("Transfer-Encoding: xchunked\r\n"),
                                     std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
                                     std::string("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
                                     std::string("Transfer-Encoding\r\n"),
                                     std::string("X: a\nContent-Length: 5\r\n"),
                                     std::string("X: a\0b\r\n", 8)}) {
    const std::string text = Exchange(absl::StrCat("POST /b HTTP/1.1\r\nHost: x\r\n", headers, tail));
    EXPECT_THAT(text, StartsWith("HTTP/1.1 400 ")) << headers;
    EXPECT_THAT(text, HasSubstr("Connection: close\r\n")) << headers;
    EXPECT_THAT(text, Not(HasSubstr("HTTP/1.1 200"))) << headers;
  }
  for (const char* start : {"POST /b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", "POST /b HTTP/2.0\r\n", "POST /b\r\n",
                            "P(ST /b HTTP/1.1\r\n", "POST  /b HTTP/1.1\r\n", "\x16\x03\x01 tls\r\n"}) {
    EXPECT_THAT(Exchange(start + tail), testing::ContainsRegex("^HTTP/1.. 400 ")) << start;
  }
  EXPECT_THAT(application_.begun(), ElementsAre());
}

TEST_F(HttpTransportTest, AClientThatHangsUpCancelsItsRequest) {
  Serve();
  for (const bool half : {false, true}) {
    RawConnection connection(port_);
    connection.Send(Post("/held", "body"));
    ASSERT_TRUE(application_.WaitForHeld(1));
    const std::shared_ptr<std::atomic<bool>> cancelled = application_.cancelled();
    EXPECT_FALSE(*cancelled);
    half ? connection.FinishSending() : connection.Close();
    EXPECT_TRUE(test::Eventually([&] { return cancelled->load(); }));
    application_.AnswerHeld();
  }
  // If a client sends its next request early, its current request must not be cancelled.
  RawConnection connection(port_);
  connection.Send(Post("/held", "body") + Get("/next"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(*application_.cancelled());
  application_.AnswerHeld();
  EXPECT_THAT(connection.ReadAnswers(2), HasSubstr("\r\n\r\n/next"));
}

TEST_F(HttpTransportTest, StopAnswersWhatHasArrivedAndClosesTheRest) {
  Serve();
  RawConnection idle(port_);
  RawConnection half(port_);
  half.Send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  RawConnection waiting(port_);
  waiting.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  std::thread stop([this] { transport_->Stop(absl::FromChrono(test::kTestLimit)); });
  bool closed = false;
  EXPECT_EQ(idle.ReadToEnd(&closed), "");
  EXPECT_TRUE(closed);
  EXPECT_EQ(half.ReadToEnd(&closed), "");
  EXPECT_TRUE(closed);
  EXPECT_FALSE(RawConnection(port_).connected()) << "the port is still open";
  application_.AnswerHeld();
  const std::string text = waiting.ReadToEnd(&closed);
  EXPECT_TRUE(closed);
  EXPECT_THAT(text, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(text, HasSubstr("\r\n\r\nbody"));
  stop.join();
}

TEST_F(HttpTransportTest, StopCutsOffAClientThatDoesNotReadItsAnswer) {
  Serve();
  RawConnection deaf(port_);
  // The answer is larger than the buffers of the sockets, so the server cannot send all of it.
  deaf.SetReceiveBuffer(4096);
  application_.set_answer_bytes(64 << 20);
  deaf.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  application_.AnswerHeld();
  RawConnection late(port_);
  late.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  const Clock::time_point begin = Clock::now();
  std::thread stop([this] { transport_->Stop(absl::Milliseconds(300)); });
  std::this_thread::sleep_for(600ms);
  // A request that is answered after the grace period gets one second more.
  application_.AnswerHeld();
  stop.join();
  EXPECT_GE(Clock::now() - begin, 300ms);  // Stop() returns, although the write timeout is an hour
}

TEST_F(HttpTransportTest, ManyClientsAtOnceAreServed) {
  Serve({.max_requests = 100});
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int c = 0; c < 100; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 5; ++i) {
        RawConnection connection(port_);
        for (int k = 0; k < 3; ++k) {
          const std::string body = absl::StrCat("\r\n\r\n", c, ".", i, ".", k);
          connection.Send(Post("/b", body));
          if (connection.ReadAnswers(1).find(body) != std::string::npos) ++good;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 100 * 5 * 3);
}

TEST_F(HttpTransportTest, APortThatIsTakenIsUnavailable) {
  Serve();
  Transport second({.host = "127.0.0.1", .port = port_}, &application_);
  const absl::Status status = second.Start().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), StartsWith(absl::StrCat("cannot listen on 127.0.0.1:", port_, ": ")));
}

}  // namespace
}  // namespace maxsim::http
