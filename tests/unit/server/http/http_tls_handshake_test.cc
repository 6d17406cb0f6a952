// Tests TLS handshakes on the HTTP port: which are refused, their time limit, and that new connections may displace
// slow handshakes.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/transport/transport.h"
#include "tests/support/connections/certificates.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/connections/tls_connection.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/http/echo_application.h"
#include "tests/unit/server/http/http_tls_fixture.h"

namespace maxsim::http {
namespace {

using namespace std::chrono_literals;
using test::ClientHello;
using test::RawConnection;
using test::TlsConnection;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

TEST_F(HttpTlsTest, OldVersionsOtherProtocolsAndNewHandshakesAreRefused) {
  Serve();
  EXPECT_FALSE(TlsConnection(port_, {.min_version = TLS1_VERSION, .max_version = TLS1_1_VERSION}).connected());
  EXPECT_FALSE(TlsConnection(port_, {.protocols = "\x02h2"}).connected());
  TlsConnection chosen(port_, {.max_version = TLS1_2_VERSION, .protocols = "\x02h2\x08http/1.1"});
  ASSERT_TRUE(chosen.connected());
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(chosen.ssl(), &protocol, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(protocol), size), "http/1.1");
  // The server gives the client neither a ticket nor a session id with which it could resume the session.
  EXPECT_EQ(SSL_SESSION_has_ticket(SSL_get_session(chosen.ssl())), 0);
  unsigned id_size = 0;
  SSL_SESSION_get_id(SSL_get_session(chosen.ssl()), &id_size);
  EXPECT_EQ(id_size, 0u);
  // In TLS 1.2, a client can ask for another handshake on the same connection. The server must refuse it.
  SSL_renegotiate(chosen.ssl());
  EXPECT_NE(SSL_do_handshake(chosen.ssl()), 1);
}

TEST_F(HttpTlsTest, WhatIsNoHandshakeIsClosed) {
  Serve();
  for (const std::string& bytes :
       {std::string("\x16garbage garbage garbage"), std::string("\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9),
        "\x16" + Get("/a"), ClientHello() + Get("/a")}) {
    RawConnection connection(port_);
    connection.Send(bytes);
    bool closed = false;
    connection.ReadToEnd(&closed);
    EXPECT_TRUE(closed);
  }
  EXPECT_EQ(HowItComes({}), "encrypted");
}

TEST_F(HttpTlsTest, SlowHandshakesAndRequestsHaveATimeLimit) {
  Serve({.idle_timeout = absl::Milliseconds(300),
         .handshake_timeout = absl::Milliseconds(300),
         .header_timeout = absl::Milliseconds(300),
         .body_timeout = absl::Milliseconds(300)});
  const std::string hello = ClientHello();
  {
    // The client sends nothing.
    RawConnection silent(port_);
    const Clock::time_point begin = Clock::now();
    bool closed = false;
    silent.ReadToEnd(&closed);
    EXPECT_TRUE(closed);
    EXPECT_GE(Clock::now() - begin, 290ms);
  }
  {
    // The hello comes byte by byte.
    RawConnection drip(port_);
    const Clock::time_point begin = Clock::now();
    size_t sent = 0;
    while (sent < hello.size() && drip.Send(hello.substr(sent, 1))) {
      ++sent;
      std::this_thread::sleep_for(20ms);
    }
    EXPECT_LT(sent, hello.size());
    EXPECT_GE(Clock::now() - begin, 290ms);
  }
  {
    // The client never answers the server's part.
    RawConnection half(port_);
    half.Send(hello);
    const Clock::time_point begin = Clock::now();
    bool closed = false;
    half.ReadToEnd(&closed);
    EXPECT_TRUE(closed);
    EXPECT_GE(Clock::now() - begin, 250ms);
  }
  for (const char* start : {"", "GET /a HTTP/1.1\r\n", "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"}) {
    TlsConnection connection(port_);
    if (*start != '\0') connection.Send(start);
    const Clock::time_point begin = Clock::now();
    if (*start == '\0') {
      bool closed = false;
      connection.ReadToEnd(&closed);
      EXPECT_TRUE(closed);
    } else {
      while (connection.Send("x") && Clock::now() - begin < test::kTestLimit) std::this_thread::sleep_for(20ms);
    }
    EXPECT_GE(Clock::now() - begin, 250ms) << start;
    EXPECT_LT(Clock::now() - begin, test::kTestLimit) << start;
  }
}

TEST_F(HttpTlsTest, ConnectionsInTheirHandshakeGiveWayToNewOnes) {
  Serve({.max_idle_connections = 8});
  const std::string hello = ClientHello();
  std::vector<RawConnection> open;
  for (int i = 0; i < 100; ++i) {
    open.emplace_back(port_);
    if (i % 3 > 0) open.back().Send(i % 3 == 1 ? hello : hello.substr(0, 20));
    if (i % 10 != 0) continue;
    EXPECT_EQ(HowItComes({}), "encrypted") << i;
  }
  bool closed = false;
  open.front().ReadToEnd(&closed);
  EXPECT_TRUE(closed);
}

TEST_F(HttpTlsTest, StopClosesConnectionsInTheirHandshake) {
  Serve();
  std::vector<RawConnection> open;
  const std::string hello = ClientHello();
  for (int i = 0; i < 30; ++i) {
    open.emplace_back(port_);
    open.back().Send(i % 2 == 0 ? hello : hello.substr(0, 50));
  }
  TlsConnection waiting(port_);
  waiting.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  for (int i = 0; i < 30; ++i) {
    open.emplace_back(port_);
    open.back().Send(hello);
  }
  std::thread stop([this] { transport_->Stop(absl::FromChrono(test::kTestLimit)); });
  for (RawConnection& connection : open) {
    bool closed = false;
    connection.ReadToEnd(&closed);
    EXPECT_TRUE(closed);
  }
  application_.AnswerHeld();
  bool closed = false;
  EXPECT_THAT(waiting.ReadToEnd(&closed), HasSubstr("\r\n\r\nbody"));
  EXPECT_TRUE(closed);
  stop.join();
}

}  // namespace
}  // namespace maxsim::http
