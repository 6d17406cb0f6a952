// Serves an HTTP port with TLS. The application behaves as the test says.
#pragma once

#include <stdlib.h>

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/http/transport/transport.h"
#include "server/tls/tls_certificates.h"
#include "tests/support/connections/certificates.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/connections/tls_connection.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/http/echo_application.h"

namespace maxsim::http {

class HttpTlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }  // of the clients

  void SetUp() override {
    char folder[] = "/tmp/maxsim_http_tls_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    Write("server", own_);
    Write("client", client_);
  }

  void TearDown() override {
    application_.AnswerHeld();
    if (transport_ != nullptr) transport_->Stop(absl::FromChrono(test::kTestLimit));
    std::filesystem::remove_all(folder_);
  }

  void Write(const std::string& name, const test::CertifiedKey& key) {
    std::ofstream(folder_ + "/" + name + ".pem") << key.certificate;
    std::ofstream(folder_ + "/" + name + ".key") << key.key;
  }

  void Serve(TransportOptions options = {}, bool ask_clients = false) {
    certificates_ =
        std::make_unique<TlsCertificates>(TlsFiles{.cert_file = folder_ + "/server.pem",
                                                   .key_file = folder_ + "/server.key",
                                                   .client_ca_file = ask_clients ? folder_ + "/client.pem" : ""});
    ASSERT_TRUE(certificates_->Load().ok());
    options.host = "127.0.0.1";
    options.max_body_bytes = 1'000'000;
    options.certificates = certificates_.get();
    transport_ = std::make_unique<Transport>(Patient(options), &application_);
    const absl::StatusOr<int> port = transport_->Start();
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }

  static std::string Post(const std::string& path, const std::string& body) {
    return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
  }
  static std::string Get(const std::string& path) { return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"); }

  // Makes a connection and asks the application to describe it. Returns the answer, or "" if none comes.
  std::string HowItComes(const test::TlsClientOptions& options) {
    test::TlsConnection connection(port_, options);
    connection.Send(Get("/how"));
    const std::string text = connection.ReadAnswers(1);
    const size_t body = text.find("\r\n\r\n");
    return body == std::string::npos ? "" : text.substr(body + 4);
  }

  const test::CertifiedKey own_ = test::MakeCertificate("server");
  const test::CertifiedKey client_ = test::MakeCertificate("client");
  std::string folder_;
  std::unique_ptr<TlsCertificates> certificates_;
  EchoApplication application_;
  std::unique_ptr<Transport> transport_;
  int port_ = 0;
};

}  // namespace maxsim::http
