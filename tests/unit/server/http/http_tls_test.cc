// Tests TLS on the HTTP port, and that the port keeps its limits with TLS.
#include <chrono>
#include <fstream>
#include <memory>
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
#include "tests/unit/server/http/echo_application.h"
#include "tests/unit/server/http/http_tls_fixture.h"

namespace maxsim::http {
namespace {

using namespace std::chrono_literals;
using test::CertifiedKey;
using test::RawConnection;
using test::TlsConnection;
using testing::HasSubstr;
using testing::StartsWith;

using Clock = std::chrono::steady_clock;

TEST_F(HttpTlsTest, AConnectionServesManyRequestsInOrder) {
  Serve();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsConnection connection(port_, {.authority = own_.certificate, .min_version = version, .max_version = version});
    ASSERT_TRUE(connection.connected());
    connection.Send(Get("/a?query=1") + Post("/b", "body of b") + Get("/how"));
    EXPECT_THAT(connection.ReadAnswers(3), testing::MatchesRegex("HTTP/1.1 200 .*\r\n\r\n/aHTTP/1.1 200 .*\r\n\r\nbody "
                                                                 "of bHTTP/1.1 200 .*\r\n\r\nencrypted"));
    for (int i = 0; i < 100; ++i) {
      connection.Send(Post("/b", absl::StrCat("number ", i)));
      EXPECT_THAT(connection.ReadAnswers(1), HasSubstr(absl::StrCat("\r\n\r\nnumber ", i)));
    }
    // Bodies of one byte, of one TLS record and one byte more or less, and of many records.
    for (const size_t size : {size_t{1}, size_t{16383}, size_t{16384}, size_t{16385}, size_t{1'000'000}}) {
      std::string body(size, 'x');
      for (size_t i = 0; i < size; i += 1000) body[i] = static_cast<char>('a' + i / 1000 % 26);
      connection.Send(Post("/b", body));
      const std::string text = connection.ReadAnswers(1);
      EXPECT_TRUE(text.ends_with("\r\n\r\n" + body)) << size;
    }
    bool closed = false;
    connection.Send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(connection.ReadToEnd(&closed), testing::EndsWith("\r\n\r\n/a"));
    EXPECT_TRUE(closed);
    EXPECT_EQ(SSL_get_shutdown(connection.ssl()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN)
        << "the server closes without saying so, as somebody on the way could";
  }
}

TEST_F(HttpTlsTest, PlainTextIsServedBesideTlsAndToldApart) {
  Serve();
  RawConnection plain(port_);
  plain.Send(Get("/how") + Post("/b", "body"));
  const std::string text = plain.ReadAnswers(2);
  EXPECT_THAT(text, HasSubstr("\r\n\r\nplain"));
  EXPECT_THAT(text, HasSubstr("\r\n\r\nbody"));
}

// A client may ask for new keys any number of times. The connection must still count as idle and be closed.
TEST_F(HttpTlsTest, NewKeysAreNoRequest) {
  Serve({.idle_timeout = absl::Milliseconds(500)});
  TlsConnection connection(port_, {.min_version = TLS1_3_VERSION});
  ASSERT_TRUE(connection.connected());
  const auto update = [&] {
    return SSL_key_update(connection.ssl(), SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(connection.ssl()) == 1;
  };
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(update());
  connection.Send(Get("/how"));
  EXPECT_THAT(connection.ReadAnswers(1), HasSubstr("\r\n\r\nencrypted"));
  const Clock::time_point begin = Clock::now();
  while (update() && Clock::now() - begin < test::kTestLimit) std::this_thread::sleep_for(20ms);
  EXPECT_GE(Clock::now() - begin, 400ms);
  EXPECT_LT(Clock::now() - begin, test::kTestLimit);
}

TEST_F(HttpTlsTest, AClientThatEndsItsHalfCancelsItsRequest) {
  Serve();
  enum class How { kCloseNotify, kFin, kClose };
  for (const How how : {How::kCloseNotify, How::kFin, How::kClose}) {
    TlsConnection connection(port_);
    connection.Send(Post("/held", "body"));
    ASSERT_TRUE(application_.WaitForHeld(1));
    const std::shared_ptr<std::atomic<bool>> cancelled = application_.cancelled();
    EXPECT_FALSE(*cancelled);
    if (how == How::kCloseNotify) connection.FinishSending();
    if (how == How::kFin) connection.raw().FinishSending();
    if (how == How::kClose) connection.Close();
    EXPECT_TRUE(test::Eventually([&] { return cancelled->load(); }));
    application_.AnswerHeld();
    if (how == How::kCloseNotify) {
      EXPECT_THAT(connection.ReadAnswers(1), HasSubstr("\r\n\r\nbody"));
    }
  }
  // If a client sends its next request early or asks for new keys, its current request must not be cancelled.
  TlsConnection connection(port_, {.min_version = TLS1_3_VERSION});
  connection.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  ASSERT_EQ(SSL_key_update(connection.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(SSL_do_handshake(connection.ssl()), 1);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(*application_.cancelled());
  connection.Send(Get("/next"));
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(*application_.cancelled());
  application_.AnswerHeld();
  EXPECT_THAT(connection.ReadAnswers(2), HasSubstr("\r\n\r\n/next"));
}

TEST_F(HttpTlsTest, AClientThatIsStillSendingReadsWhyItWasRefused) {
  Serve({.linger_timeout = absl::FromChrono(test::kTestLimit)});
  TlsConnection connection(port_);
  connection.Send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
  const std::string piece(100'000, 'x');
  for (size_t sent = 0; sent < 20'000'000; sent += piece.size()) ASSERT_TRUE(connection.Send(piece));
  bool closed = false;
  EXPECT_THAT(connection.ReadToEnd(&closed), StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(closed);
}

TEST_F(HttpTlsTest, AnAnswerWaitsForASlowReader) {
  Serve();
  TlsConnection connection(port_);
  // The answer is larger than the buffers of the sockets.
  constexpr size_t kBytes = 32 << 20;
  application_.set_answer_bytes(kBytes);
  connection.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  application_.AnswerHeld();
  std::this_thread::sleep_for(300ms);
  const std::string text = connection.ReadAnswers(1);
  EXPECT_EQ(text.size() - text.find("\r\n\r\n") - 4, kBytes);
  // The next one is not read at all.
  connection.Send(Post("/held", "body"));
  ASSERT_TRUE(application_.WaitForHeld(1));
  application_.AnswerHeld();
  std::this_thread::sleep_for(300ms);
  transport_->Stop(absl::Milliseconds(300));  // returns, although the write timeout is an hour
}

TEST_F(HttpTlsTest, NewConnectionsGetNewCertificatesAndOpenOnesKeepTheirs) {
  Serve();
  TlsConnection open(port_, {.authority = own_.certificate});
  ASSERT_TRUE(open.connected());
  const CertifiedKey renewed = test::MakeCertificate("renewed", test::KeyKind::kRsa2048);
  Write("server", renewed);
  EXPECT_FALSE(TlsConnection(port_, {.authority = renewed.certificate}).connected()) << "nobody has loaded it";
  const absl::StatusOr<bool> changed = certificates_->Load();
  ASSERT_TRUE(changed.ok() && *changed);
  EXPECT_TRUE(TlsConnection(port_, {.authority = renewed.certificate}).connected());
  EXPECT_FALSE(TlsConnection(port_, {.authority = own_.certificate}).connected());
  open.Send(Get("/how"));
  EXPECT_THAT(open.ReadAnswers(1), HasSubstr("\r\n\r\nencrypted"));
  // A wrong file changes nothing.
  std::ofstream(folder_ + "/server.pem") << own_.certificate;
  EXPECT_FALSE(certificates_->Load().ok());
  EXPECT_TRUE(TlsConnection(port_, {.authority = renewed.certificate}).connected());
}

TEST_F(HttpTlsTest, TheApplicationLearnsWhetherAClientShowedACertificate) {
  Serve({}, /*ask_clients=*/true);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_EQ(HowItComes({.max_version = version}), "encrypted");
    EXPECT_EQ(HowItComes({.own = client_, .max_version = version}), "encrypted, certified");
    EXPECT_EQ(HowItComes({.own = test::MakeCertificate("client"), .max_version = version}), "")
        << "it is of another authority";
  }
  // The authority is withdrawn.
  Write("client", own_);
  ASSERT_TRUE(certificates_->Load().ok());
  EXPECT_EQ(HowItComes({.own = client_}), "");
}

TEST_F(HttpTlsTest, ManyClientsAtOnceAreServed) {
  Serve({.max_requests = 100});
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int c = 0; c < 30; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 5; ++i) {
        TlsConnection connection(port_);
        for (int k = 0; k < 3; ++k) {
          const std::string body = absl::StrCat("\r\n\r\n", c, ".", i, ".", k);
          connection.Send(Post("/b", body));
          if (connection.ReadAnswers(1).find(body) != std::string::npos) ++good;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 30 * 5 * 3);
}

}  // namespace
}  // namespace maxsim::http
