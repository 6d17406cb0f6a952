// Encryption of the gRPC port, with certificates that the test makes.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

class TlsServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl program to make certificates";
    Make("server", "-addext subjectAltName=IP:127.0.0.1");
    Make("client", "");
  }

  // A self-signed certificate, which is its own authority.
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
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::RerankResponse response;
    return stub
        ->Rerank(&context, MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5), &response)
        .error_code();
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

  TemporaryFolder folder_;
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
  auto server = Server::Create(config);
  ASSERT_TRUE(server.ok());
  const absl::Status status = (*server)->Start();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("tls.*"));
}

}  // namespace
}  // namespace maxsim::test
