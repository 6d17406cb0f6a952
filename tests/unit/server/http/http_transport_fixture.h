// Serves an HTTP port. The application behaves as the test says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/transport/transport.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/http/echo_application.h"

namespace maxsim::http {

class HttpTransportTest : public testing::Test {
 protected:
  void TearDown() override {
    application_.AnswerHeld();
    if (transport_ != nullptr) transport_->Stop(absl::FromChrono(test::kTestLimit));
  }

  void Serve(TransportOptions options = {}) {
    options.host = "127.0.0.1";
    options.max_body_bytes = 100'000;
    transport_ = std::make_unique<Transport>(Patient(options), &application_);
    const absl::StatusOr<int> port = transport_->Start();
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }

  static std::string Post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\n", headers, "Content-Length: ", body.size(), "\r\n\r\n",
                        body);
  }
  static std::string Get(const std::string& path) { return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"); }

  // Sends the header of a request with a body of `size` bytes. Returns true if the server asks for the body.
  static bool BeginBody(test::RawConnection& connection, const std::string& path, size_t size) {
    connection.Send(absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", size,
                                 "\r\nExpect: 100-continue\r\n\r\n"));
    return absl::StartsWith(connection.ReadAnswers(1), "HTTP/1.1 100 ");
  }

  // Sends `bytes` on a new connection. Returns what the server sends until it closes the connection. Fails the test if
  // it does not close the connection.
  std::string Exchange(const std::string& bytes) {
    test::RawConnection connection(port_);
    connection.Send(bytes);
    bool closed = false;
    std::string text = connection.ReadToEnd(&closed);
    EXPECT_TRUE(closed) << "the server keeps the connection open after " << text;
    return text;
  }

  EchoApplication application_;
  std::unique_ptr<Transport> transport_;
  int port_ = 0;
};

}  // namespace maxsim::http
