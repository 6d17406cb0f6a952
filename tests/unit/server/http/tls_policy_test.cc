// Tests which requests are allowed without TLS, and which without a client's certificate.
#include "server/http/tls_policy.h"

#include <string>

#include <gtest/gtest.h>

namespace maxsim::http {
namespace {

absl::StatusCode Check(const std::string& path, bool encrypted, bool certified, PlainText plain_text,
                       bool asks_clients) {
  Request request;
  request.path = path;
  request.encrypted = encrypted;
  request.has_client_certificate = certified;
  return CheckTls(request, plain_text, asks_clients).code();
}

TEST(TlsPolicyTest, ProbesAndMetricsNeedTlsOnlyWhereNothingIsPlainText) {
  for (const char* path : {"/livez", "/readyz", "/metrics"}) {
    for (const bool asks : {false, true}) {
      EXPECT_EQ(Check(path, false, false, PlainText::kProbes, asks), absl::StatusCode::kOk) << path;
      EXPECT_EQ(Check(path, false, false, PlainText::kNothing, asks), absl::StatusCode::kFailedPrecondition) << path;
      EXPECT_EQ(Check(path, true, false, PlainText::kNothing, asks), absl::StatusCode::kOk) << path;
    }
  }
}

TEST(TlsPolicyTest, EverythingElseNeedsTlsAndTheCertificateThatClientsAreAskedFor) {
  for (const char* path : {"/v1/rerank", "/v1/collections", "/", "/livez/", "/unknown", "*"}) {
    for (const PlainText plain_text : {PlainText::kProbes, PlainText::kNothing}) {
      EXPECT_EQ(Check(path, false, false, plain_text, false), absl::StatusCode::kFailedPrecondition) << path;
      EXPECT_EQ(Check(path, true, false, plain_text, false), absl::StatusCode::kOk) << path;
      EXPECT_EQ(Check(path, true, false, plain_text, true), absl::StatusCode::kUnauthenticated) << path;
      EXPECT_EQ(Check(path, true, true, plain_text, true), absl::StatusCode::kOk) << path;
    }
  }
}

}  // namespace
}  // namespace maxsim::http
