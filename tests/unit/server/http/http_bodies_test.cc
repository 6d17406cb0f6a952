// Tests the limit on the memory that the bodies of all requests take together.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/transport/transport.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/unit/server/http/echo_application.h"

namespace maxsim::http {
namespace {

using test::RawConnection;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class HttpBodiesTest : public testing::Test {
 protected:
  void TearDown() override {
    application_.AnswerHeld();
    if (transport_ != nullptr) transport_->Stop(absl::Seconds(20));
  }

  void Serve(absl::Duration slow_body = absl::InfiniteDuration()) {
    transport_ = std::make_unique<Transport>(
        TransportOptions{.host = "127.0.0.1", .max_body_bytes = 1000, .max_body_memory = 2500, .slow_body = slow_body},
        &application_);
    const absl::StatusOr<int> port = transport_->Start();
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }

  static std::string Header(const std::string& path, size_t size) {
    return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", size, "\r\n\r\n");
  }

  // Sends a request that the application does not answer yet. Waits until the application holds `count` requests.
  void Hold(RawConnection& connection, size_t count) {
    connection.Send(Header("/held", 1000) + std::string(1000, 'h'));
    ASSERT_TRUE(application_.WaitForHeld(count));
  }

  EchoApplication application_;
  std::unique_ptr<Transport> transport_;
  int port_ = 0;
};

TEST_F(HttpBodiesTest, ABodyBeyondTheBoundIsRefusedUntilOthersAreAnswered) {
  Serve();
  RawConnection first(port_);
  RawConnection second(port_);
  Hold(first, 1);
  Hold(second, 2);
  RawConnection small(port_);
  small.Send(Header("/b", 500) + std::string(500, 's'));
  EXPECT_THAT(small.ReadAnswers(1), StartsWith("HTTP/1.1 200 ")) << "it fits exactly";
  RawConnection large(port_);
  large.Send(Header("/b", 501) + std::string(501, 'l'));
  bool closed = false;
  const std::string refused = large.ReadToEnd(&closed);
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(refused, HasSubstr("the limit of 2500 bytes for all bodies together is reached"));
  RawConnection chunked(port_);
  chunked.Send("POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1f5\r\n" + std::string(501, 'c'));
  EXPECT_THAT(chunked.ReadToEnd(&closed), StartsWith("HTTP/1.1 429 "));
  application_.AnswerHeld();
  EXPECT_THAT(first.ReadAnswers(1), EndsWith("h"));
  EXPECT_THAT(second.ReadAnswers(1), EndsWith("h"));
  for (int i = 0; i < 10; ++i) {
    first.Send(Header("/b", 1000) + std::string(1000, 'a'));
    EXPECT_THAT(first.ReadAnswers(1), EndsWith("a")) << i;
  }
}

TEST_F(HttpBodiesTest, ABodyThatComesSlowlyGivesItsMemoryToOthers) {
  Serve(/*slow_body=*/absl::ZeroDuration());
  RawConnection first(port_);
  Hold(first, 1);
  RawConnection slow(port_);
  slow.Send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(absl::StartsWith(slow.ReadAnswers(1), "HTTP/1.1 100 "));
  slow.Send(std::string(999, 's'));
  RawConnection fresh(port_);
  Hold(fresh, 2);
  // If the server reads the slow body before the last one, it closes the slow connection without an answer (""), to
  // make room for the last body. Otherwise it answers the slow connection with 429.
  bool closed = false;
  EXPECT_THAT(slow.ReadToEnd(&closed), AnyOf("", StartsWith("HTTP/1.1 429 ")));
  EXPECT_TRUE(closed);
}

}  // namespace
}  // namespace maxsim::http
