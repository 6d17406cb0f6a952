#include "server/http/transport/browser_guard.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::http {
namespace {

using testing::HasSubstr;

absl::Status Check(const std::string& method, const std::string& host, const std::string& origin = "",
                   const std::vector<std::string>& allowed = {}, bool encrypted = false) {
  Request request;
  request.method = method;
  request.host = host;
  request.origin = origin;
  request.encrypted = encrypted;
  return BrowserGuard("10.0.0.7", allowed).Check(request);
}

TEST(BrowserGuardTest, TakesRequestsByAddressAndByPrivateName) {
  for (const char* host : {"127.0.0.1:7071", "10.42.0.17:7071", "[::1]:7071", "[fd00::1]", "localhost:7071",
                           "localhost", "maxsimd:7071", "maxsimd.search.svc", "maxsimd.search.svc.cluster.local:7071",
                           "box.local", "db.internal", "nas.home.arpa.", "LOCALHOST", "a.localhost:80", ""}) {
    EXPECT_TRUE(Check("GET", host).ok()) << host;
    EXPECT_TRUE(Check("POST", host).ok()) << host;
  }
}

TEST(BrowserGuardTest, RefusesNamesThatAnotherSiteMayHave) {
  for (const char* host : {"evil.example:7071", "127.0.0.1.evil.example", "localhost.evil.example", "1.2.3.evil",
                           "evil.example.", "maxsimd.search"}) {
    const absl::Status status = Check("GET", host);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << host;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Host: is \"" + std::string(host) + "\"")) << host;
    EXPECT_THAT(std::string(status.message()), HasSubstr("http.allowed_hosts")) << host;
  }
  // With TLS, the browser has checked the certificate.
  EXPECT_TRUE(Check("GET", "search.example.org", "", {}, /*encrypted=*/true).ok());
}

TEST(BrowserGuardTest, TakesConfiguredNamesWithAnyPort) {
  EXPECT_TRUE(Check("GET", "Search.example.org:7071", "", {"search.example.org"}).ok());
  EXPECT_FALSE(Check("GET", "other.example.org", "", {"search.example.org"}).ok());
  EXPECT_TRUE(Check("GET", "other.example.org", "", {"*"}).ok());
}

TEST(BrowserGuardTest, RefusesPostsOfOtherSitesPages) {
  for (const char* origin : {"https://evil.example", "http://localhost:3000", "http://127.0.0.1:7072", "null", "x",
                             "http://localhost:7071.evil.example"}) {
    for (const char* method : {"POST", "PUT", "DELETE"}) {
      const absl::Status status = Check(method, "localhost:7071", origin);
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << origin;
      EXPECT_THAT(std::string(status.message()), HasSubstr("Origin: is \"" + std::string(origin) + "\"")) << origin;
    }
    // GET is allowed: this server sends no CORS headers, so the other site's page cannot read the answer.
    EXPECT_TRUE(Check("GET", "localhost:7071", origin).ok()) << origin;
    EXPECT_FALSE(Check("POST", "localhost:7071", origin, {}, /*encrypted=*/true).ok()) << origin;
  }
}

TEST(BrowserGuardTest, TakesPostsOfItsOwnPageAndOfConfiguredSites) {
  EXPECT_TRUE(Check("POST", "localhost:7071", "http://localhost:7071").ok());
  EXPECT_TRUE(Check("POST", "LocalHost:7071", "http://localhost:7071").ok());
  EXPECT_TRUE(Check("POST", "[::1]:7071", "http://[::1]:7071").ok());
  // A proxy terminates TLS and sends its own name for the server in the Host header.
  EXPECT_TRUE(Check("POST", "maxsimd:7071", "https://search.example.org", {"search.example.org"}).ok());
  EXPECT_TRUE(Check("POST", "maxsimd:7071", "https://any.example.org", {"*"}).ok());
}

}  // namespace
}  // namespace maxsim::http
