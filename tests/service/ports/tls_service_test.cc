// Tests the encryption of the gRPC port. The tests make the certificates.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "server/tls/tls_certificates.h"
#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;

class TlsServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl program to make certificates";
    Make("server", kForThisMachine);
    Make("client", "");
    old_certificate_ = ReadFile(folder_ / "server.pem");
  }

  // Makes a self-signed certificate.
  void Make(const std::string& name, const std::string& more) {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=" + name +
        " -keyout " + (folder_ / (name + ".key")) + " -out " + (folder_ / (name + ".pem")) + " " + more +
        " > /dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  grpc::StatusCode Call(RunningServer& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    auto stub = v1::Reranker::NewStub(grpc::CreateChannel(server.grpc_address(), credentials));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
    v1::RerankResponse response;
    return stub
        ->Rerank(&context, MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5), &response)
        .error_code();
  }

  static std::shared_ptr<grpc::ChannelCredentials> TrustingOnly(const std::string& authority) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority;
    return grpc::SslCredentials(options);
  }

  std::shared_ptr<grpc::ChannelCredentials> Trusting(bool with_certificate) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadFile(folder_ / "server.pem");
    if (with_certificate) {
      options.pem_cert_chain = ReadFile(folder_ / "client.pem");
      options.pem_private_key = ReadFile(folder_ / "client.key");
    }
    return grpc::SslCredentials(options);
  }

  void Configure(config::Config* config) {
    config->tls.cert_file = folder_ / "server.pem";
    config->tls.key_file = folder_ / "server.key";
  }

  static constexpr char kForThisMachine[] = "-addext subjectAltName=IP:127.0.0.1";

  TemporaryFolder folder_;
  std::string old_certificate_;  // the server's first certificate
};

TEST_F(TlsServiceTest, OnlyEncryptedCallsAreServed) {
  RunningServer server([this](config::Config* config) { Configure(config); });
  EXPECT_EQ(Call(server, Trusting(false)), grpc::OK);
  EXPECT_EQ(Call(server, grpc::InsecureChannelCredentials()), grpc::UNAVAILABLE);
}

TEST_F(TlsServiceTest, ClientsShowACertificateWhereTheServerWantsOne) {
  RunningServer server([this](config::Config* config) {
    Configure(config);
    config->tls.client_ca_file = folder_ / "client.pem";
  });
  EXPECT_EQ(Call(server, Trusting(true)), grpc::OK);
  EXPECT_EQ(Call(server, Trusting(false)), grpc::UNAVAILABLE);
}

TEST_F(TlsServiceTest, FilesThatAreNoCertificatesAreRefusedAtTheStart) {
  WriteFile(folder_ / "nonsense.pem", "nonsense");
  config::Config config = TestConfig();
  Configure(&config);
  config.tls.cert_file = folder_ / "nonsense.pem";
  const auto server = Server::Create(config);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("tls.cert_file"));
}

TEST_F(TlsServiceTest, AReloadGivesNewConnectionsTheNewCertificateAndKeepsTheOpenOnes) {
  RunningServer server([this](config::Config* config) { Configure(config); });
  auto open = v1::Reranker::NewStub(grpc::CreateChannel(server.grpc_address(), Trusting(false)));
  const auto call_open = [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
    v1::GetInfoResponse info;
    return open->GetInfo(&context, {}, &info).error_code();
  };
  ASSERT_EQ(call_open(), grpc::OK);
  Make("server", kForThisMachine);
  EXPECT_EQ(Call(server, Trusting(false)), grpc::UNAVAILABLE) << "nobody asked for a reload";
  server.server().RequestReload();
  EXPECT_EQ(Call(server, Trusting(false)), grpc::OK);
  // Uses new credentials, because a call with the same credentials could use the connection that is already open.
  EXPECT_EQ(Call(server, TrustingOnly(old_certificate_)), grpc::UNAVAILABLE);
  EXPECT_EQ(call_open(), grpc::OK);
}

TEST_F(TlsServiceTest, AReloadTakesTheNewAuthoritiesOfClients) {
  Make("authorities", "");
  RunningServer server([this](config::Config* config) {
    Configure(config);
    config->tls.client_ca_file = folder_ / "authorities.pem";
  });
  EXPECT_EQ(Call(server, Trusting(true)), grpc::UNAVAILABLE);
  WriteFile(folder_ / "authorities.pem", ReadFile(folder_ / "client.pem"));
  server.server().RequestReload();
  EXPECT_EQ(Call(server, Trusting(true)), grpc::OK);
  EXPECT_EQ(Call(server, Trusting(false)), grpc::UNAVAILABLE);
}

TEST_F(TlsServiceTest, WrongFilesLeaveTheOldCertificateInForce) {
  RunningServer server([this](config::Config* config) { Configure(config); });
  // In the middle of a replacement, the key file is new and the certificate file is still old. The server must keep the
  // old pair.
  WriteFile(folder_ / "server.key", ReadFile(folder_ / "client.key"));
  server.server().RequestReload();
  EXPECT_EQ(Call(server, Trusting(false)), grpc::OK);
  WriteFile(folder_ / "server.pem", "");
  server.server().RequestReload();
  EXPECT_EQ(Call(server, TrustingOnly(old_certificate_)), grpc::OK);
}

TEST_F(TlsServiceTest, WhatIsWrongWithAFileIsSaid) {
  config::Config config = TestConfig();
  Configure(&config);
  config.tls.client_ca_file = folder_ / "client.pem";
  TlsCertificates certificates({.cert_file = config.tls.cert_file,
                                .key_file = config.tls.key_file,
                                .client_ca_file = config.tls.client_ca_file});
  const std::string cert = ReadFile(folder_ / "server.pem");
  const std::string key = ReadFile(folder_ / "server.key");
  const std::string client = ReadFile(folder_ / "client.pem");
  const absl::StatusOr<bool> first = certificates.Load();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(*first);
  const absl::StatusOr<bool> again = certificates.Load();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(*again) << "the files are what they were";
  const auto expect = [&](const std::string& file, const std::string& content, absl::StatusCode code,
                          const std::string& text) {
    const std::string before = ReadFile(folder_ / file);
    WriteFile(folder_ / file, content);
    const absl::Status status = certificates.Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ / file));
    WriteFile(folder_ / file, before);
  };
  expect("server.pem", "", absl::StatusCode::kNotFound, "tls.cert_file: cannot read ");
  expect("server.pem", key, absl::StatusCode::kInvalidArgument, "tls.cert_file: ");
  expect("server.key", cert, absl::StatusCode::kInvalidArgument, "tls.key_file: ");
  expect("server.key", ReadFile(folder_ / "client.key"), absl::StatusCode::kInvalidArgument,
         "is not the key of the certificate");
  expect("client.pem", key, absl::StatusCode::kInvalidArgument, "tls.client_ca_file: ");
  // If the key's file is a pipe, the server must not wait for it.
  ASSERT_EQ(unlink((folder_ / "server.key").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ / "server.key").c_str(), 0600), 0);
  EXPECT_THAT(std::string(certificates.Load().status().message()), HasSubstr("server.key: it is a pipe, not a file"));
  WriteFile(folder_ / "server.key", key);
  WriteFile(folder_ / "client.pem", client + cert);
  const absl::StatusOr<bool> more = certificates.Load();
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_TRUE(*more);
}

}  // namespace
}  // namespace maxsim::test
