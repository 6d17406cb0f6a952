#include "server/descriptors.h"

#include <gtest/gtest.h>

#include "collection/log/collection_log.h"

namespace maxsim {
namespace {

config::Config ConfigWith(int grpc_connections, int http_requests, int http_idle) {
  config::Config config;
  config.grpc.max_connections = grpc_connections;
  config.http.address = "127.0.0.1:0";
  config.http.max_concurrent_requests = http_requests;
  config.http.max_idle_connections = http_idle;
  return config;
}

TEST(DescriptorPlanTest, WhatFitsIsGrantedAndOneMoreIsNot) {
  const config::Config config = ConfigWith(1000, 64, 64);
  const uint64_t needed = PlanDescriptors(config, /*num_open=*/30, UINT64_MAX).needed;
  EXPECT_GT(needed, 1000u + 64 + 64 + 30);
  EXPECT_EQ(PlanDescriptors(config, 30, needed + 1).max_connections, 1000);
  EXPECT_EQ(PlanDescriptors(config, 30, needed).max_connections, 1000);
  EXPECT_EQ(PlanDescriptors(config, 30, needed - 1).max_connections, 999);
}

TEST(DescriptorPlanTest, WithoutAnHttpPortItsConnectionsNeedNone) {
  config::Config config = ConfigWith(1000, 64, 64);
  const uint64_t with_http = PlanDescriptors(config, 30, UINT64_MAX).needed;
  config.http.address.clear();
  EXPECT_EQ(PlanDescriptors(config, 30, UINT64_MAX).needed, with_http - 128);
}

TEST(DescriptorPlanTest, TheLogOfALiveCollectionNeedsFiles) {
  config::Config config = ConfigWith(1000, 64, 64);
  config.collections = {{.name = "a", .path = "/a"}};
  const uint64_t without = PlanDescriptors(config, 30, UINT64_MAX).needed;
  config.collections.push_back({.name = "b", .path = "/b", .live = true});
  config.collections.push_back({.name = "c", .path = "/c", .live = true});
  EXPECT_GE(PlanDescriptors(config, 30, UINT64_MAX).needed, without + 2 * collection::kMaxLogDescriptors);
}

TEST(DescriptorPlanTest, GrpcHasHalfOfWhatIsLeftBelowALowLimitAndEightInAnyCase) {
  const config::Config config = ConfigWith(1000, 4096, 4096);
  EXPECT_EQ(PlanDescriptors(config, 24, 64).max_connections, 20);
  EXPECT_EQ(PlanDescriptors(config, 60, 64).max_connections, 8);
  EXPECT_EQ(PlanDescriptors(config, 64, 64).max_connections, 8);
  EXPECT_EQ(PlanDescriptors(config, 100, 64).max_connections, 8);
  EXPECT_EQ(PlanDescriptors(ConfigWith(3, 64, 64), 64, 64).max_connections, 3) << "never more than were asked for";
}

TEST(FitHttpConnectionsTest, AnEighthOfTheLimitAndFourInAnyCase) {
  EXPECT_EQ(FitHttpConnections(1024, 8192), 1024);
  EXPECT_EQ(FitHttpConnections(1024, 8191), 1023);
  EXPECT_EQ(FitHttpConnections(1024, 64), 8);
  EXPECT_EQ(FitHttpConnections(1024, 16), 4);
  EXPECT_EQ(FitHttpConnections(1024, 0), 4);
  EXPECT_EQ(FitHttpConnections(2, 64), 2) << "never more than were asked for";
  EXPECT_EQ(FitHttpConnections(1024, UINT64_MAX), 1024);
}

}  // namespace
}  // namespace maxsim
