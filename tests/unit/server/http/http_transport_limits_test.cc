// Tests the limits of the HTTP port: for headers, requests, waiting connections, and the time of each phase.
#include <chrono>
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
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

TEST_F(HttpTransportTest, HeadersAreBoundedTogether) {
  Serve();
  std::string many = "GET /a HTTP/1.1\r\n";
  for (int i = 0; many.size() < 2 * kMaxHeaderBytes; ++i) absl::StrAppend(&many, "X-", i, ": y\r\n");
  EXPECT_THAT(Exchange(many + "\r\n"), StartsWith("HTTP/1.1 431 "));
  const std::string wide(kMaxHeaderBytes, 'w');
  EXPECT_THAT(Exchange("GET /a HTTP/1.1\r\nX: " + wide + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Exchange("GET /" + wide + " HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  // This header has no end.
  RawConnection connection(port_);
  connection.Send("GET /a HTTP/1.1\r\n");
  for (int i = 0; i < 100'000 && connection.Send("X: y\r\n"); ++i) {
  }
  bool closed = false;
  EXPECT_THAT(connection.ReadToEnd(&closed), StartsWith("HTTP/1.1 431 "));
  EXPECT_TRUE(closed);
  EXPECT_THAT(application_.begun(), ElementsAre());
}

TEST_F(HttpTransportTest, RequestsBeyondTheLimitAreRefusedAndOthersAnswered) {
  Serve({.max_requests = 2, .slow_body = absl::InfiniteDuration()});
  RawConnection first(port_);
  first.Send(Post("/held", "first"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  RawConnection second(port_);
  ASSERT_TRUE(BeginBody(second, "/held", 6));  // its time counts from here
  const std::string refused = Exchange(Post("/held", "third"));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 7\r\n"));
  EXPECT_THAT(refused, HasSubstr("the limit of 2 requests at a time is reached"));
  RawConnection probe(port_);
  probe.Send(Get("/probe"));
  EXPECT_THAT(probe.ReadAnswers(1), HasSubstr("\r\n\r\n/probe"));
  second.Send("second");
  ASSERT_TRUE(application_.WaitForHeld(2));
  application_.AnswerHeld();
  EXPECT_THAT(first.ReadAnswers(1), HasSubstr("\r\n\r\nfirst"));
  EXPECT_THAT(second.ReadAnswers(1), HasSubstr("\r\n\r\nsecond"));
  // Both request slots must be free again, for old and for new connections.
  for (int i = 0; i < 10; ++i) {
    first.Send(Post("/b", "again"));
    EXPECT_THAT(first.ReadAnswers(1), HasSubstr("\r\n\r\nagain"));
    RawConnection fresh(port_);
    fresh.Send(Post("/b", "fresh"));
    EXPECT_THAT(fresh.ReadAnswers(1), HasSubstr("\r\n\r\nfresh"));
  }
}

TEST_F(HttpTransportTest, IdleAndSlowConnectionsGiveWayToNewOnes) {
  Serve({.max_idle_connections = 8});
  RawConnection waiting(port_);
  waiting.Send(Post("/held", "waiting"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  std::vector<RawConnection> idle;
  for (int i = 0; i < 100; ++i) {
    idle.emplace_back(port_);
    if (i % 2 == 0) idle.back().Send("GET /slow HTTP/1.1\r\nX:");
    if (i % 10 != 0) continue;
    RawConnection probe(port_);
    probe.Send(Get("/probe"));
    EXPECT_THAT(probe.ReadAnswers(1), HasSubstr("\r\n\r\n/probe"));
  }
  bool closed = false;
  EXPECT_EQ(idle.front().ReadToEnd(&closed), "");
  EXPECT_TRUE(closed) << "the first idle connection is still open";
  application_.AnswerHeld();
  EXPECT_THAT(waiting.ReadAnswers(1), HasSubstr("\r\n\r\nwaiting")) << "a request that waits is not idle";
}

TEST_F(HttpTransportTest, BodiesThatComeSlowlyGiveWayToNewRequests) {
  Serve({.max_requests = 3, .slow_body = absl::Milliseconds(300)});
  RawConnection waiting(port_);
  waiting.Send(Post("/held", "waiting"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  RawConnection slow(port_);
  ASSERT_TRUE(BeginBody(slow, "/b", 1000));
  std::this_thread::sleep_for(350ms);
  RawConnection coming(port_);
  ASSERT_TRUE(BeginBody(coming, "/b", 6));
  coming.Send("com");
  RawConnection fresh(port_);
  fresh.Send(Post("/b", "fresh"));
  EXPECT_THAT(fresh.ReadAnswers(1), HasSubstr("\r\n\r\nfresh"));
  bool closed = false;
  EXPECT_EQ(slow.ReadToEnd(&closed), "") << "it gets no answer";
  EXPECT_TRUE(closed);
  coming.Send("ing");
  EXPECT_THAT(coming.ReadAnswers(1), HasSubstr("\r\n\r\ncoming")) << "a body that came later keeps its place";
  application_.AnswerHeld();
  EXPECT_THAT(waiting.ReadAnswers(1), HasSubstr("\r\n\r\nwaiting")) << "what is being answered keeps its place";
}

// A client that sends one byte now and then must not keep a connection open beyond the time limit.
TEST_F(HttpTransportTest, EachPhaseHasATimeLimit) {
  Serve({.max_requests = 1,
         .idle_timeout = absl::Milliseconds(300),
         .header_timeout = absl::Milliseconds(300),
         .body_timeout = absl::Milliseconds(300)});
  for (const char* start : {"", "GET /a HTTP/1.1\r\n", "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"}) {
    RawConnection connection(port_);
    connection.Send(start);
    const Clock::time_point begin = Clock::now();
    if (*start == '\0') {
      bool closed = false;
      connection.ReadToEnd(&closed);
      EXPECT_TRUE(closed);
    } else {
      while (connection.Send("x") && Clock::now() - begin < test::kTestLimit) std::this_thread::sleep_for(20ms);
    }
    EXPECT_GE(Clock::now() - begin, 290ms) << start;
    EXPECT_LT(Clock::now() - begin, test::kTestLimit) << start;
  }
  // The only request slot must be free again. The time until the application answers has no limit.
  RawConnection connection(port_);
  connection.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  std::this_thread::sleep_for(700ms);
  application_.AnswerHeld();
  EXPECT_THAT(connection.ReadAnswers(1), HasSubstr("\r\n\r\nbody"));
}

}  // namespace
}  // namespace maxsim::http
