#include "server/tracing/endpoint.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::tracing {
namespace {

using testing::HasSubstr;

TEST(EndpointTest, ReadsHostsAndPorts) {
  for (const char* authority : {"localhost:4317", "127.0.0.1:1", "[::1]:65535", "otel-collector.monitoring.svc:4317"}) {
    EXPECT_EQ(ParseEndpoint(authority)->authority, authority);
    EXPECT_FALSE(ParseEndpoint(authority)->is_tls);
    EXPECT_EQ(ParseEndpoint(std::string("http://") + authority)->authority, authority);
    EXPECT_FALSE(ParseEndpoint(std::string("http://") + authority)->is_tls);
    EXPECT_EQ(ParseEndpoint(std::string("https://") + authority)->authority, authority);
    EXPECT_TRUE(ParseEndpoint(std::string("https://") + authority)->is_tls);
  }
}

TEST(EndpointTest, RefusesWhatIsNone) {
  for (const char* text : {"", "localhost", ":4317", "localhost:", "localhost:0", "localhost:65536", "localhost:-1",
                           "localhost:4317/", "localhost:4317/v1/traces", "grpc://localhost:4317", "::1:4317",
                           "[localhost]:4317", "[]:4317", "a b:4317", "https://", "http://https://localhost:1"}) {
    const auto endpoint = ParseEndpoint(text);
    ASSERT_FALSE(endpoint.ok()) << text;
    EXPECT_TRUE(absl::IsInvalidArgument(endpoint.status())) << endpoint.status();
    EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr(std::string("\"") + text + "\""));
    EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr("1 to 65535"));
  }
}

}  // namespace
}  // namespace maxsim::tracing
