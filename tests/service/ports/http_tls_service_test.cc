// Tests the HTTP port of a server with certificates. It must answer some requests in plain text and others only through
// TLS, depending on the request and the client.
#include <csignal>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "httplib.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/certificates.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;

constexpr char kQuery[] =
    R"({"model": "corpus", "documents": ["doc-1", "doc-2"], "query": [[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,)"
    R"(0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]})";

class HttpTlsServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("server", own_);
    Write("client", client_);
  }

  void Write(const std::string& name, const CertifiedKey& key) {
    WriteFile(folder_ / (name + ".pem"), key.certificate);
    WriteFile(folder_ / (name + ".key"), key.key);
  }

  void Start(config::HttpTls tls, bool ask_clients = false) {
    server_ = std::make_unique<RunningServer>([&](config::Config* config) {
      config->tls.cert_file = folder_ / "server.pem";
      config->tls.key_file = folder_ / "server.key";
      if (ask_clients) config->tls.client_ca_file = folder_ / "client.pem";
      config->http.tls = tls;
    });
  }

  // Makes a call through TLS: a POST if there is a body, otherwise a GET. Returns the status, or -1 without an answer.
  int CallTls(const std::string& path, const std::string& body = "", bool certified = false,
              const std::string& authority = "server") {
    const std::string cert = certified ? folder_ / "client.pem" : "";
    const std::string key = certified ? folder_ / "client.key" : "";
    httplib::SSLClient client("127.0.0.1", server_->http_port(), cert, key);
    client.set_ca_cert_path((folder_ / (authority + ".pem")).c_str());
    client.enable_server_certificate_verification(true);
    const httplib::Result result =
        body.empty() ? client.Get(path.c_str()) : client.Post(path.c_str(), body, "application/json");
    last_body_ = result ? result->body : "";
    return result ? result->status : -1;
  }

  int CallPlain(const std::string& path, const std::string& body = "") {
    const HttpAnswer answer = body.empty() ? HttpGet(server_->http_port(), path)
                                           : HttpPost(server_->http_port(), path, body, "application/json");
    last_body_ = answer.body;
    return answer.status;
  }

  TemporaryFolder folder_;
  const CertifiedKey own_ = MakeCertificate("server");
  const CertifiedKey client_ = MakeCertificate("client");
  std::unique_ptr<RunningServer> server_;
  std::string last_body_;
};

TEST_F(HttpTlsServiceTest, CallsWantTlsAndProbesDoNot) {
  Start(config::HttpTls::kAuto);
  EXPECT_EQ(CallTls("/v1/rerank", kQuery), 200) << last_body_;
  EXPECT_THAT(last_body_, HasSubstr("doc-1"));
  EXPECT_EQ(CallTls("/v1/collections"), 200);
  for (const char* path : {"/livez", "/readyz", "/metrics"}) {
    EXPECT_EQ(CallTls(path), 200) << path;
    EXPECT_EQ(CallPlain(path), 200) << path;
  }
  EXPECT_EQ(CallPlain("/v1/rerank", kQuery), 400);
  EXPECT_THAT(last_body_, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(last_body_, HasSubstr("/v1/rerank is served through TLS only"));
  EXPECT_EQ(CallPlain("/v1/collections"), 400);
  EXPECT_THAT(server_->server().metrics().Expose(),
              HasSubstr(R"(maxsim_requests_total{code="FAILED_PRECONDITION",method="http"} 1)"));
}

TEST_F(HttpTlsServiceTest, NothingIsPlainTextWhereTheConfigurationSaysSo) {
  Start(config::HttpTls::kAll);
  for (const char* path : {"/livez", "/readyz", "/metrics", "/v1/collections"}) {
    EXPECT_EQ(CallTls(path), 200) << path;
    EXPECT_EQ(CallPlain(path), 400) << path;
    EXPECT_THAT(last_body_, HasSubstr("is served through TLS only")) << path;
  }
}

TEST_F(HttpTlsServiceTest, EverythingIsPlainTextWhereTheConfigurationSaysSo) {
  Start(config::HttpTls::kOff, /*ask_clients=*/true);
  EXPECT_EQ(CallPlain("/v1/rerank", kQuery), 200) << last_body_;
  EXPECT_EQ(CallTls("/readyz"), -1);
}

TEST_F(HttpTlsServiceTest, CallsWantAClientCertificateWhereTheServerAsksForOneAndProbesDoNot) {
  Start(config::HttpTls::kAll, /*ask_clients=*/true);
  EXPECT_EQ(CallTls("/v1/rerank", kQuery, /*certified=*/true), 200) << last_body_;
  EXPECT_EQ(CallTls("/v1/rerank", kQuery), 401);
  EXPECT_THAT(last_body_, HasSubstr("needs a client certificate"));
  EXPECT_EQ(CallTls("/v1/collections"), 401);
  for (const char* path : {"/livez", "/readyz", "/metrics"}) EXPECT_EQ(CallTls(path), 200) << path;
  // A client need not have a certificate. But if it has one from an issuer that the server does not trust, the
  // handshake must fail.
  Write("client", own_);
  EXPECT_EQ(CallTls("/livez", "", /*certified=*/true), -1);
}

TEST_F(HttpTlsServiceTest, AReloadGivesNewConnectionsTheNewCertificate) {
  Start(config::HttpTls::kAuto);
  Write("old", own_);
  Write("server", MakeCertificate("server"));
  EXPECT_EQ(CallTls("/livez"), -1) << "nobody asked for a reload";
  server_->server().RequestReload();
  EXPECT_EQ(CallTls("/livez"), 200);
  EXPECT_EQ(CallTls("/livez", "", false, "old"), -1);
  // In the middle of a replacement, the key file is new and the certificate file is still old. The server must keep the
  // old pair.
  const std::string key = ReadFile(folder_ / "server.key");
  WriteFile(folder_ / "server.key", client_.key);
  server_->server().RequestReload();
  EXPECT_EQ(CallTls("/livez"), 200);
}

}  // namespace
}  // namespace maxsim::test
